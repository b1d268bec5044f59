"""New jobs that a running one brings forth, under its lease."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.errors import DependencyBreadthError, DuplicateJobError, InvalidJobError
from fencepost.store.interface.queue import Moved, Spawn, Spawned, SpawnReply
from lab.model import rules
from lab.model.queue import Workings
from lab.model.world import Kept


class Spawning(Workings):
    """FAN_OUT at run time, and the FAN_IN that waits for it (S1-63, S1-64, C29)."""

    def spawn(self, spawns: Sequence[Spawn]) -> list[SpawnReply]:
        before = self.world.copy()
        try:
            return [self._spawn(spawn) for spawn in spawns]
        except (DuplicateJobError, InvalidJobError):
            self.world = before
            raise

    def _spawn(self, spawn: Spawn) -> SpawnReply:
        kept = self.world.get(spawn.job_id)
        if kept is None or not kept.is_owned_by(spawn.token, self.now):
            return self._lost(spawn.job_id)
        jobs = [replace(new, flow=kept.job.flow) for new in spawn.jobs]
        replies = self.enqueue(jobs, atomic=True)
        spawned = dict.fromkeys(reply.job_id for reply in replies)
        followed: list[Moved] = []
        for child in self.world.children(kept.id):
            kept_child = self.world.jobs[child.id]
            waits = kept_child.job.waits
            if kept_child.is_waiting and waits is not None and waits.gathers:
                followed += self._gather_all(kept_child, list(spawned))
        followed += self.admit()
        return Spawned(kept.id, tuple(replies), tuple(followed))

    def _gather_all(self, gatherer: Kept, spawned: Sequence[str]) -> list[Moved]:
        """Have *gatherer* wait for what was spawned; what failed at once fails it too (S1-71)."""
        for job_id in spawned:
            gatherer = self.gather(gatherer, self.world.jobs[job_id])
        count = len(self.world.awaited[gatherer.id])
        if count > rules.BREADTH_MAX:
            raise DependencyBreadthError(str(count))
        moved = self.judge(gatherer)
        if moved is None:
            return []
        return [moved, *(self.follow([moved.job_id]) if moved.state in rules.ENDED else ())]

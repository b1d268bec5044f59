"""The differential test on queues that are in different partitions, with what is documented there.

The sequences are those of every store, but for what ``docs/redis.md`` names as different across
partitions: these calls are not made, or made so that they concern one partition.

- A type is in one queue: its keys, concurrency keys and rate hold in one partition.
- What a job spawns is of its own queue.
- The app has no limit; the limit is put on a queue instead.
- Claims name their queues: without names, it is partitions that take turns.
- Before a claim, all leases are recovered and all times kept: it does so in its partitions only.
- No call fails by half: what is done in several partitions is done one by one (``lab/outbox`` has
  a death before and after each step).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import ClaimRequest, Spawn
from fencepost.store.interface.records.crons import CronDefinition, CronFire
from fencepost.store.interface.settings import Scope
from lab.model import choices
from lab.model.machine import StoresAgree

HOMES = dict(zip(choices.TYPES, choices.QUEUES, strict=False))
"""The queue of each type."""
ALL = dict.fromkeys(HOMES.values(), 1)
EVERYTHING = 100


class SpreadStoresAgree(StoresAgree):
    """One sequence on every store, within what partitions promise."""

    def do(self, name: str, *arguments: Any, is_atomic: bool | None = None) -> Any:
        self.fault = None
        if name == "claim":
            for chore in ("recover", "expire", "promote"):
                super().do(chore, EVERYTHING)
        return super().do(name, *self._spread(name, arguments), is_atomic=is_atomic)

    def _spread(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        match name, arguments:
            case "limit", (Scope.APP, _, bound):
                return Scope.QUEUE, choices.QUEUES[0], bound
            case (("recover" | "expire" | "promote"), _):
                return (EVERYTHING,)
            case "claim", (ClaimRequest() as request,):
                return (replace(request, queues=request.queues or ALL),)
        return tuple(self._placed(each) for each in arguments)

    def _placed(self, value: Any) -> Any:
        """Return what is given with its jobs in the queues of their types."""
        match value:
            case NewJob():
                return replace(value, queue=HOMES.get(value.type, value.queue))
            case CronDefinition():
                return replace(value, template=self._placed(value.template))
            case CronFire():
                return replace(value, jobs=self._placed(value.jobs))
            case Spawn():
                return replace(value, jobs=self._spawned(value))
            case list():
                return [self._placed(each) for each in value]
            case tuple():
                return tuple(self._placed(each) for each in value)
        return value

    def _spawned(self, spawn: Spawn) -> tuple[NewJob, ...]:
        type_ = next(grip.type for grip in self.grips if grip.id == spawn.job_id)
        return tuple(replace(job, type=type_, queue=HOMES[type_]) for job in spawn.jobs)

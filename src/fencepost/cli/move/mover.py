"""Moving the jobs of a quiet store to another: copied, compared, and only then called moved.

Nothing is deleted where they come from, so the danger is that both stores are worked on. Hence the
queues there are paused before the first job is copied, and stay so; a mark (the name of a queue
that is paused too, and never has a job) says why. What can break off at any line can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fencepost.cli.output import Bar
from fencepost.core.bounds import PAGE_MAX, RECOVER_BATCH, WORKER_SILENCE
from fencepost.core.crypto.envelope import REFUSED
from fencepost.core.display import shown_url
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.errors import ConfigurationError, PlainContentError, StateConflictError
from fencepost.store.interface.events import EventPage
from fencepost.store.interface.overview import QueueView
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Store
from fencepost.store.interface.transfer import Dump, Loaded

MARKS = "fencepost:mov"
MOVING = f"{MARKS}ing"
MOVED = f"{MARKS}ed:"
"""Followed by the position up to which jobs were moved; what comes later can be moved later."""
NAMED_MAX = 5
EVENTS_MAX = 100
"""Records of events that are copied at once: each may be as large as a payload."""


class Mark(NamedTuple):
    """How far a store's jobs have been moved away."""

    is_moving: bool
    position: int | None
    """None if no move was ever completed."""


def mark_of(queues: Sequence[QueueView]) -> Mark:
    """Return the mark among the queues of a store."""
    names = [queue.name for queue in queues if queue.is_paused]
    positions = [name.removeprefix(MOVED) for name in names if name.startswith(MOVED)]
    reached = [int(digits) for digits in positions if digits.isdecimal()]
    return Mark(MOVING in names, max(reached, default=None))


class Mover:
    """One move, step by step; each step raises StateConflictError rather than do harm."""

    def __init__(self, source: Store, target: Store, *, batch: int) -> None:
        self.source = source
        self.target = target
        self.batch = batch
        self.paused: list[str] = []
        self.recovered = self.loaded = self.present = 0
        self._mark = mark_of(self._queues(source))

    @property
    def is_late(self) -> bool:
        """Whether all was moved before, and only jobs are left that have come since."""
        return self._mark.position is not None

    @property
    def start(self) -> int:
        """Where the jobs begin that are to be moved."""
        return self._mark.position or 0

    # Before.

    def prepare(self, bar: Bar) -> None:
        """See that both stores are ready, hand the settings over, and pause the source."""
        self._refuse_workers(self.source)
        if not self.is_late:
            self._refuse_used_target(bar)
        self._refuse_running()
        if not self.is_late and not self._mark.is_moving:
            self._copy_settings()
        self._mark_source()
        self._pause_source()
        # Somebody may have claimed a job a moment ago.
        self._refuse_workers(self.source)
        self._refuse_running()

    def _refuse_workers(self, store: Store) -> None:
        workers = store.run(store.cluster.workers())
        if workers:
            named = ", ".join(f"{w.id} (pid {w.pid} on {w.host})" for w in workers[:NAMED_MAX])
            raise StateConflictError(
                f"{len(workers)} workers are alive on {shown_url(store.url)}: {named}; stop them "
                f"(one that was killed is forgotten after {WORKER_SILENCE:g} s)"
            )

    def _refuse_running(self) -> None:
        """Take back what has no valid lease, and refuse to go on beside what has one."""
        while moved := self.source.run(self.source.upkeep.recover(RECOVER_BATCH)):
            self.recovered += len(moved)
        running = JobFilter(states=(State.RUNNING,))
        count = self.source.run(self.source.reader.count(running))
        if count:
            page = self.source.run(self.source.reader.find(running, PageRequest(NAMED_MAX)))
            named = ", ".join(
                f"{job.id} on {job.lease.worker} until {job.lease.expires_at:%H:%M:%S} UTC"
                for job in page.jobs
                if job.lease is not None
            )
            raise StateConflictError(
                f"{count} jobs run on {shown_url(self.source.url)}: {named}; wait for them to end, "
                f"or for their leases to run out"
            )

    def _refuse_used_target(self, bar: Bar) -> None:
        """Refuse a target that anybody else uses; what an earlier try has left there may stay."""
        where = shown_url(self.target.url)
        mark = mark_of(self._queues(self.target))
        if mark.is_moving or mark.position is not None:
            raise StateConflictError(f"the jobs of {where} were moved away; its own are old copies")
        self._refuse_workers(self.target)
        for page in self._pages(self.target, 0):
            job_ids = [record.job.id for record in page.records]
            known = self.source.run(self.source.reader.get(job_ids))
            foreign = [id_ for id_, job in zip(job_ids, known, strict=True) if job is None]
            if foreign:
                raise StateConflictError(
                    f"{where} has jobs of its own, such as {foreign[0]}; move to an empty store"
                )
            bar.advance(len(job_ids))

    def _copy_settings(self) -> None:
        """Hand pauses, limits and rates over, before our own pauses are among them."""
        source, target = self.source, self.target
        for queue in self._queues(source):
            if queue.name.startswith(MARKS):
                continue
            set_pause = target.settings.pause if queue.is_paused else target.settings.resume
            target.run(set_pause(Scope.QUEUE, queue.name))
            target.run(target.settings.limit(Scope.QUEUE, queue.name, queue.max_running))
        types = source.run(source.overview.types())
        target.run(target.settings.set_rates({type_.name: type_.rate for type_ in types}))
        for type_ in types:
            set_pause = target.settings.pause if type_.is_paused else target.settings.resume
            target.run(set_pause(Scope.TYPE, type_.name))
        target.run(target.settings.limit(Scope.APP, "", source.run(source.settings.app_limit())))

    def _mark_source(self) -> None:
        self.source.run(self.source.settings.pause(Scope.QUEUE, MOVING))
        if mark_of(self._queues(self.target)).is_moving:
            if not self._mark.is_moving:
                self.source.run(self.source.settings.resume(Scope.QUEUE, MOVING))
            raise ConfigurationError("both URLs lead to the same store")

    def _pause_source(self) -> None:
        for queue in self._queues(self.source):
            if not queue.is_paused:
                self.source.run(self.source.settings.pause(Scope.QUEUE, queue.name))
                self.paused.append(queue.name)

    # On the way.

    def count(self) -> int | None:
        """Return how many jobs there are to be moved; how many came late nobody knows."""
        return None if self.is_late else self.source.run(self.source.reader.count(JobFilter()))

    def copy(self, bar: Bar) -> None:
        """Load every job of the source into the target, in the order of submission.

        But each behind all that it waits for, or waited for: what gathers may have been submitted
        before them. Such jobs are left over and read again, as often as they are behind each other.
        """
        left = self._load(bar, None)
        while left:
            rest = self._load(bar, left)
            if len(rest) == len(left):  # what they waited for is not there at all any more
                self._load(bar, rest, is_last=True)
                return
            left = rest

    def _load(self, bar: Bar, only: set[str] | None, *, is_last: bool = False) -> set[str]:
        """Load the jobs with these ids, or all; return the ids of those that were left over."""
        left: set[str] = set()
        for page in self._pages(self.source, self.start):
            wanted = [each for each in page.records if only is None or each.job.id in only]
            ready = wanted if is_last else self._ready(wanted)
            left.update({each.job.id for each in wanted} - {each.job.id for each in ready})
            self._load_some(ready)
            bar.advance(len(ready))
        return left

    def _load_some(self, records: Sequence[JobRecord]) -> None:
        replies = self.target.run(self.target.transfer.load(records)) if records else []
        loaded = sum(isinstance(reply, Loaded) for reply in replies)
        self.loaded += loaded
        self.present += len(replies) - loaded

    def _ready(self, records: Sequence[JobRecord]) -> list[JobRecord]:
        """Return those behind nothing that is not in the target, or before them in the page."""
        behind = {job_id for record in records for job_id in record.dependencies}
        if not behind:
            return list(records)
        known = self._known(sorted(behind))
        ready = []
        for record in records:
            if known.issuperset(record.dependencies):
                ready.append(record)
                known.add(record.job.id)
        return ready

    def _known(self, job_ids: Sequence[str]) -> set[str]:
        """Return which of these the target has."""
        known: set[str] = set()
        for start in range(0, len(job_ids), PAGE_MAX):
            found = self.target.run(self.target.reader.get(job_ids[start : start + PAGE_MAX]))
            known.update(job.id for job in found if job is not None)
        return known

    def copy_events(self) -> None:
        """Record in the target what was sent, in the order of sending; what is there stays so.

        Pages come newest first: they are found from the newest of now on, which keeps what is sent
        meanwhile from shifting them, and then copied from the last to the first.
        """
        newest = self._events(None, 1)
        starts: list[int] = []
        following = newest.next
        while following is not None:
            starts.append(following)
            following = self._events(following).next
        for start in reversed(starts):
            self.target.run(self.target.events.load(self._events(start).events[::-1]))
        self.target.run(self.target.events.load(newest.events))

    def _events(self, after: int | None, limit: int = EVENTS_MAX) -> EventPage:
        """Return records to be copied; one that is refused for being plain would arrive as none."""
        page = self.source.run(self.source.events.list(None, PageRequest(limit, after)))
        for event in page.events:
            if event.payload == REFUSED:
                raise PlainContentError(f"the record of event {event.id}")
        return page

    def compare(self, bar: Bar) -> int:
        """See that the target has every job as the source has it; return the last position."""
        position, missing, changed = self.start, [], []
        for page in self._pages(self.source, self.start):
            found = self.target.run(self.target.reader.get([each.job.id for each in page.records]))
            for record, job in zip(page.records, found, strict=True):
                if job is None:
                    missing.append(record.job.id)
                elif job != record.job:
                    changed.append(record.job.id)
            position = page.last
            bar.advance(len(page.records))
        if missing:
            raise StateConflictError(
                f"{len(missing)} jobs have come to {shown_url(self.source.url)} meanwhile, such as "
                f"{missing[0]}; let nobody submit there any more, and move again"
            )
        # Once a move is complete the target is worked on, and jobs that came late run there.
        if not self.is_late:
            self._refuse_changed(changed)
        return position

    def _refuse_changed(self, changed: Sequence[str]) -> None:
        if changed:
            raise StateConflictError(
                f"{len(changed)} jobs are not in {shown_url(self.target.url)} as they are in "
                f"{shown_url(self.source.url)}, such as {changed[0]}: somebody has worked on one "
                f"of the two since they were copied; empty the target, and move again",
                job_id=changed[0],
            )
        here, there = (_counts(store) for store in (self.source, self.target))
        if here != there:
            raise StateConflictError(
                f"the stores count differently: {shown_url(self.source.url)} has {here}, "
                f"{shown_url(self.target.url)} has {there}"
            )

    # After.

    def finish(self, position: int) -> None:
        """Mark the source as moved; what comes there from now on has not been."""
        source = self.source
        source.run(source.settings.pause(Scope.QUEUE, f"{MOVED}{position}"))
        self._drop_marks(but=f"{MOVED}{position}")

    def abandon(self) -> list[str]:
        """Resume the queues of the source as they were before; return their names."""
        if self.is_late:
            raise StateConflictError(
                f"the move from {shown_url(self.source.url)} is complete: its jobs live in "
                f"{shown_url(self.target.url)}, and would run twice"
            )
        if not self._mark.is_moving:
            raise StateConflictError(f"no move from {shown_url(self.source.url)} is under way")
        # The target was given the pauses that there were before ours.
        kept = {queue.name for queue in self._queues(self.target) if queue.is_paused}
        names = [queue.name for queue in self._queues(self.source) if queue.is_paused]
        resumed = [n for n in names if n not in kept and not n.startswith(MARKS)]
        for name in resumed:
            self.source.run(self.source.settings.resume(Scope.QUEUE, name))
        self._drop_marks()
        return resumed

    def _drop_marks(self, *, but: str | None = None) -> None:
        for queue in self._queues(self.source):
            if queue.name.startswith(MARKS) and queue.name != but:
                self.source.run(self.source.settings.resume(Scope.QUEUE, queue.name))

    # Reading.

    def _queues(self, store: Store) -> list[QueueView]:
        return store.run(store.overview.queues())

    def _pages(self, store: Store, after: int) -> Iterator[Dump]:
        """Yield pages until there are no more; each is read when it is wanted."""
        while (page := store.run(store.transfer.dump(after, self.batch))).records:
            yield page
            after = page.last


def _counts(store: Store) -> dict[str, dict[str, int]]:
    """Return how many jobs there are by type and state."""
    return {
        view.name: {state.value: count for state, count in view.counts.items() if count}
        for view in store.run(store.overview.types())
        if any(view.counts.values())
    }

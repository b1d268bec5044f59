"""Moving the jobs of a quiet store to another: copied, compared, and only then called moved.

Nothing is deleted where they come from, so the danger is that both stores are worked on. Hence the
queues there are paused before the first job is copied, and stay so; a mark (the name of a queue
that is paused too, and never has a job) says why. Callers may go on submitting there while jobs are
copied. Then the source refuses new jobs for good, all are compared, and those that came meanwhile
are copied too. What can break off at any line can be repeated, and given up until it is complete.
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
MOVED = f"{MARKS}ed"
NAMED_MAX = 5
EVENTS_MAX = 100
"""Records of events that are copied at once: each may be as large as a payload."""


class Mark(NamedTuple):
    """Whether a store's jobs are being moved away, or have been."""

    is_moving: bool
    is_moved: bool


def mark_of(queues: Sequence[QueueView]) -> Mark:
    """Return the mark among the queues of a store."""
    names = {queue.name for queue in queues if queue.is_paused}
    # Both are there if a move broke off at its very end.
    return Mark(is_moving=MOVING in names and MOVED not in names, is_moved=MOVED in names)


class Mover:
    """One move, step by step; each step raises StateConflictError rather than do harm."""

    def __init__(self, source: Store, target: Store, *, batch: int) -> None:
        self.source = source
        self.target = target
        self.batch = batch
        self.paused: list[str] = []
        self.recovered = self.loaded = self.present = 0
        self._mark = mark_of(self._queues(source))

    # Before.

    def prepare(self, bar: Bar) -> None:
        """See that both stores are ready, hand the settings over, and pause the source."""
        self._refuse_moved_source()
        self._refuse_workers(self.source)
        self._refuse_used_target(bar)
        self._refuse_running()
        if not self._mark.is_moving:
            self._copy_settings()
        self._mark_source()
        self._pause_source()
        # Somebody may have claimed a job a moment ago.
        self._refuse_workers(self.source)
        self._refuse_running()

    def _refuse_moved_source(self) -> None:
        if self._mark.is_moved:
            raise StateConflictError(
                f"the jobs of {shown_url(self.source.url)} were moved before, and it has accepted "
                f"none since: nothing is left to be moved"
            )

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
        if mark.is_moving or mark.is_moved:
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

    def count(self) -> int:
        """Return how many jobs there are to be moved."""
        return self.source.run(self.source.reader.count(JobFilter()))

    def copy(self, bar: Bar) -> None:
        """Load every job of the source into the target, in the order of submission.

        But each behind all that it waits for, or waited for: what gathers may have been submitted
        before them. Such jobs are left over and read again, as often as they are behind each other.
        """
        self._copy(bar, None)

    def _copy(self, bar: Bar, only: set[str] | None) -> None:
        left = self._load(bar, only)
        while left:
            rest = self._load(bar, left)
            if len(rest) == len(left):  # what they waited for is not there at all any more
                self._load(bar, rest, is_last=True)
                return
            left = rest

    def close(self) -> None:
        """Have the source refuse new jobs; a queue that one has made meanwhile is paused too."""
        self.source.run(self.source.transfer.accept_jobs(False))
        self._pause_source()

    def _load(self, bar: Bar, only: set[str] | None, *, is_last: bool = False) -> set[str]:
        """Load the jobs with these ids, or all; return the ids of those that were left over."""
        left: set[str] = set()
        for page in self._pages(self.source, 0):
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

    def compare(self, bar: Bar) -> None:
        """See that the target has every job as the source has it, also those that came late.

        To be called when the source refuses new jobs. What came while others were copied may stand
        anywhere among them, since a store may give out numbers in blocks.
        """
        missing, changed = self._differences(bar)
        if missing:
            self._copy(bar, set(missing))
            missing, changed = self._differences(bar)
        if missing:
            raise StateConflictError(
                f"{len(missing)} jobs of {shown_url(self.source.url)} were not copied, such as "
                f"{missing[0]}; move again"
            )
        self._refuse_changed(changed)

    def _differences(self, bar: Bar) -> tuple[list[str], list[str]]:
        """Return the ids of jobs that the target lacks, and of those that it has otherwise."""
        missing, changed = [], []
        for page in self._pages(self.source, 0):
            found = self.target.run(self.target.reader.get([each.job.id for each in page.records]))
            for record, job in zip(page.records, found, strict=True):
                if job is None:
                    missing.append(record.job.id)
                elif job != record.job:
                    changed.append(record.job.id)
            bar.advance(len(page.records))
        return missing, changed

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

    def finish(self) -> None:
        """Mark the source as moved; it refuses new jobs from then on, as it did before."""
        self.source.run(self.source.settings.pause(Scope.QUEUE, MOVED))
        self.source.run(self.source.settings.resume(Scope.QUEUE, MOVING))

    def abandon(self) -> list[str]:
        """Accept jobs again, and resume the queues as they were before; return their names."""
        if self._mark.is_moved:
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
        self.source.run(self.source.transfer.accept_jobs(True))
        # Last: until then it can be repeated.
        self.source.run(self.source.settings.resume(Scope.QUEUE, MOVING))
        return resumed

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

"""Moves the jobs of a store without workers to another: copies, compares, then marks them as moved.

Nothing is deleted in the source, so the danger is that workers run on both stores. Hence the queues
of the source are paused before the first job is copied, and stay paused; a mark (a paused queue
with a reserved name and no jobs) says why. Callers may continue to submit to the source while jobs
are copied. Then the source refuses new jobs for good, all jobs are compared, and those that were
submitted meanwhile are copied too. A move can be interrupted at any line and repeated, and it can
be abandoned until it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencepost.cli.output import Bar
from fencepost.core.bounds import PAGE_MAX, RECOVER_BATCH, WORKER_SILENCE
from fencepost.core.display import amount, shown_url
from fencepost.core.encryption import REFUSED
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.moves import MARKS, MOVED, MOVING, mark_of
from fencepost.errors import ConfigurationError, PlainContentError, StateConflictError
from fencepost.store.interface.records.events import EventPage
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.store.interface.records.transfer import Dump, Loaded
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Store

NAMED_MAX = 5
EVENTS_MAX = 100
"""Records of events per batch: each may be as large as a payload."""


class Mover:
    """One move, step by step; each step raises StateConflictError rather than do harm."""

    def __init__(self, source: Store, target: Store, *, batch: int) -> None:
        self.source = source
        self.target = target
        self.batch = batch
        self.paused: list[str] = []
        self.recovered = self.loaded = self.present = 0
        self._mark = mark_of(self._queues(source))

    def prepare(self, advance: Bar) -> None:
        """Check both stores, copy the settings, and pause the source."""
        if self._mark.is_moved:
            raise StateConflictError(
                f"the jobs of {shown_url(self.source.url)} were moved before, and it has accepted "
                f"none since: there is nothing to move"
            )
        self._refuse_workers(self.source)
        self._refuse_used_target(advance)
        self._refuse_running()
        if not self._mark.is_moving:
            self._copy_settings()
        self._mark_source()
        self._pause_source()
        # A worker may have claimed a job just before the pause.
        self._refuse_workers(self.source)
        self._refuse_running()

    def _refuse_workers(self, store: Store) -> None:
        workers = store.run(store.cluster.workers())
        if workers:
            named = ", ".join(f"{w.id} (pid {w.pid} on {w.host})" for w in workers[:NAMED_MAX])
            raise StateConflictError(
                f"{amount(len(workers), 'worker is', 'workers are')} alive on "
                f"{shown_url(store.url)}: {named}; stop them "
                f"(a killed one is forgotten after {WORKER_SILENCE:g} s)"
            )

    def _refuse_running(self) -> None:
        """Recover jobs whose leases expired, and refuse to continue while others run."""
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
                f"{amount(count, 'job is', 'jobs are')} running on "
                f"{shown_url(self.source.url)}: {named}; "
                f"wait until they end, or until their leases expire"
            )

    def _refuse_used_target(self, advance: Bar) -> None:
        """Refuse a target with other jobs or workers; copies of an interrupted move may stay."""
        where = shown_url(self.target.url)
        mark = mark_of(self._queues(self.target))
        if mark.is_moving or mark.is_moved:
            raise StateConflictError(
                f"the jobs of {where} were moved away; what it holds are old copies"
            )
        self._refuse_workers(self.target)
        for page in self._pages(self.target, 0):
            job_ids = [record.job.id for record in page.records]
            known = self.source.run(self.source.reader.get(job_ids))
            foreign = [id_ for id_, job in zip(job_ids, known, strict=True) if job is None]
            if foreign:
                raise StateConflictError(
                    f"{where} has other jobs, such as {foreign[0]}; move to an empty store"
                )
            advance(len(job_ids))

    def _copy_settings(self) -> None:
        """Copy pauses and limits, before the pauses of this move are among them."""
        source, target = self.source, self.target
        for queue in self._queues(source):
            if queue.name.startswith(MARKS):
                continue
            self._copy_pause(Scope.QUEUE, queue)
            target.run(target.settings.limit(Scope.QUEUE, queue.name, queue.max_running))
        types = source.run(source.overview.types())
        target.run(target.settings.limit_types({type_.name: type_.limits for type_ in types}))
        for type_ in types:
            self._copy_pause(Scope.TYPE, type_)
        target.run(target.settings.limit(Scope.APP, "", source.run(source.settings.app_limit())))

    def _copy_pause(self, scope: Scope, view: QueueView | TypeView) -> None:
        settings = self.target.settings
        set_pause = settings.pause if view.is_paused else settings.resume
        self.target.run(set_pause(scope, view.name))

    def _mark_source(self) -> None:
        self.source.run(self.source.settings.pause(Scope.QUEUE, MOVING))
        if mark_of(self._queues(self.target)).is_moving:
            if not self._mark.is_moving:
                self.source.run(self.source.settings.resume(Scope.QUEUE, MOVING))
            raise ConfigurationError("both URLs name the same store")

    def _pause_source(self) -> None:
        for queue in self._queues(self.source):
            if not queue.is_paused:
                self.source.run(self.source.settings.pause(Scope.QUEUE, queue.name))
                self.paused.append(queue.name)

    def count(self) -> int:
        """Return how many jobs there are to move."""
        return self.source.run(self.source.reader.count(JobFilter()))

    def copy(self, advance: Bar) -> None:
        """Load every job of the source into the target, in the order of submission.

        A job comes after all its dependencies, which may have been submitted after it. A job whose
        dependencies are missing is skipped and read again in the next pass.
        """
        self._copy(advance, None)

    def _copy(self, advance: Bar, only: set[str] | None) -> None:
        left = self._load(advance, only)
        while left:
            rest = self._load(advance, left)
            if len(rest) == len(left):  # their dependencies no longer exist
                self._load(advance, rest, is_last=True)
                return
            left = rest

    def close(self) -> None:
        """Make the source refuse new jobs, and pause queues that were created meanwhile."""
        self.source.run(self.source.transfer.accept_jobs(False))
        self._pause_source()

    def _load(self, advance: Bar, only: set[str] | None, *, is_last: bool = False) -> set[str]:
        """Load the jobs with these ids, or all; return the ids of those that were skipped."""
        left: set[str] = set()
        for page in self._pages(self.source, 0):
            wanted = [each for each in page.records if only is None or each.job.id in only]
            ready = wanted if is_last else self._ready(wanted)
            left.update({each.job.id for each in wanted} - {each.job.id for each in ready})
            self._load_some(ready)
            advance(len(ready))
        return left

    def _load_some(self, records: Sequence[JobRecord]) -> None:
        replies = self.target.run(self.target.transfer.load(records)) if records else []
        loaded = sum(isinstance(reply, Loaded) for reply in replies)
        self.loaded += loaded
        self.present += len(replies) - loaded

    def _ready(self, records: Sequence[JobRecord]) -> list[JobRecord]:
        """Return the records whose dependencies are in the target or earlier in the page."""
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
        """Return which of these jobs the target has."""
        known: set[str] = set()
        for start in range(0, len(job_ids), PAGE_MAX):
            found = self.target.run(self.target.reader.get(job_ids[start : start + PAGE_MAX]))
            known.update(job.id for job in found if job is not None)
        return known

    def copy_events(self) -> None:
        """Copy the records of events in the order of sending; existing ones are not changed.

        Pages come newest first. They are found from the newest record on, so that events that are
        sent meanwhile do not shift them, and then copied from the last page to the first.
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
        """Return a page of records; refuse a plain one that this store would show as empty."""
        page = self.source.run(self.source.events.list(None, PageRequest(limit, after)))
        for event in page.events:
            if event.payload == REFUSED:
                raise PlainContentError(f"the record of event {event.id}")
        return page

    def compare(self, advance: Bar) -> None:
        """Check that the target has every job as the source has it, and copy late ones.

        Call it when the source refuses new jobs. A job that was submitted during the copy may have
        any position among the others, since a store may allocate positions in blocks.
        """
        missing, changed = self._differences(advance)
        if missing:
            self._copy(advance, set(missing))
            missing, changed = self._differences(advance)
        if missing:
            raise StateConflictError(
                f"not copied from {shown_url(self.source.url)}: "
                f"{amount(len(missing), 'job')}, such as {missing[0]}; move again"
            )
        self._refuse_changed(changed)

    def _differences(self, advance: Bar) -> tuple[list[str], list[str]]:
        """Return the ids of jobs that the target lacks, and of those that differ."""
        missing, changed = [], []
        for page in self._pages(self.source, 0):
            found = self.target.run(self.target.reader.get([each.job.id for each in page.records]))
            for record, job in zip(page.records, found, strict=True):
                if job is None:
                    missing.append(record.job.id)
                elif job != record.job:
                    changed.append(record.job.id)
            advance(len(page.records))
        return missing, changed

    def _refuse_changed(self, changed: Sequence[str]) -> None:
        if changed:
            raise StateConflictError(
                f"changed in {shown_url(self.target.url)} or {shown_url(self.source.url)}: "
                f"{amount(len(changed), 'job')}, such as {changed[0]}: one of the stores was used "
                f"since they were copied; empty the target, and move again",
                job_id=changed[0],
            )
        here, there = (_counts(store) for store in (self.source, self.target))
        if here != there:
            raise StateConflictError(
                f"the counts of the stores differ: {shown_url(self.source.url)} has {here}, "
                f"{shown_url(self.target.url)} has {there}"
            )

    def finish(self) -> None:
        """Mark the source as moved; it already refuses new jobs."""
        self.source.run(self.source.settings.pause(Scope.QUEUE, MOVED))
        self.source.run(self.source.settings.resume(Scope.QUEUE, MOVING))

    def abandon(self) -> list[str]:
        """Make the source accept jobs again and resume the queues that were paused; return them."""
        if self._mark.is_moved:
            raise StateConflictError(
                f"the move from {shown_url(self.source.url)} is complete: its jobs live in "
                f"{shown_url(self.target.url)}, and would run twice"
            )
        if not self._mark.is_moving:
            raise StateConflictError(f"no move from {shown_url(self.source.url)} is in progress")
        # The target has the pauses from before this move.
        kept = {queue.name for queue in self._queues(self.target) if queue.is_paused}
        names = [queue.name for queue in self._queues(self.source) if queue.is_paused]
        resumed = [n for n in names if n not in kept and not n.startswith(MARKS)]
        for name in resumed:
            self.source.run(self.source.settings.resume(Scope.QUEUE, name))
        self.source.run(self.source.transfer.accept_jobs(True))
        # Last: until then it can be repeated.
        self.source.run(self.source.settings.resume(Scope.QUEUE, MOVING))
        return resumed

    def _queues(self, store: Store) -> list[QueueView]:
        return store.run(store.overview.queues())

    def _pages(self, store: Store, after: int) -> Iterator[Dump]:
        """Yield pages of jobs; each is read when it is needed."""
        while (page := store.run(store.transfer.dump(after, self.batch))).records:
            yield page
            after = page.last


def _counts(store: Store) -> dict[str, dict[str, int]]:
    """Return the number of jobs by type and state."""
    return {
        view.name: {state.value: count for state, count in view.counts.items() if count}
        for view in store.run(store.overview.types())
        if any(view.counts.values())
    }

"""What the machine asks of the model and of every store alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fencepost.core.events import SentEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job import Attempt, DeadLetter, Dependency, Job, JobRecord
from fencepost.core.lifecycle import State
from fencepost.core.limits import DUMP_MAX, PAGE_MAX
from fencepost.core.why import Situation
from fencepost.store.crons import CronList
from fencepost.store.replies import QueueView, TypeView
from fencepost.store.requests import PruneRequest, WorkerInfo
from lab.model.telling import told

CALLS_MAX = 100
"""A store whose pages go round must fail, not hang."""

Ask = Callable[..., Any]
"""Run one operation: its name, and then its arguments."""


class Call(msgspec.Struct, frozen=True):
    """One operation, its arguments in the model's names."""

    name: str
    arguments: tuple[Any, ...] = ()
    is_atomic: bool | None = None
    """An argument of enqueue alone."""

    def __str__(self) -> str:
        shown = [told(each) for each in self.arguments]
        shown += [] if self.is_atomic is None else [f"atomic={self.is_atomic}"]
        return f"{self.name}({', '.join(shown)})"

    def ask(self, asked: Ask) -> Any:
        """Ask *asked*; what takes several operations is answered as a whole.

        Positions are a store's own, so that pages are followed rather than compared.
        """
        match self.name:
            case "find":
                return _find(asked, *self.arguments)
            case "dead_letters":
                return _dead_letters(asked, *self.arguments)
            case "events":
                return _events(asked, *self.arguments)
            case "dump":
                return _dump(asked, *self.arguments)
            case "prune":
                return _prune(asked, *self.arguments)
            case "look":
                return _look(asked, *self.arguments)
        if self.is_atomic is None:
            return asked(self.name, *self.arguments)
        return asked(self.name, *self.arguments, atomic=self.is_atomic)

    @property
    def is_single(self) -> bool:
        """Whether it is one operation that writes, and so can be cut."""
        looks = ("find", "dead_letters", "dump", "prune", "look", "get", "count", "attempts")
        others = ("events", "situation", "tidy", "dependencies", "dependents")
        return self.name not in (*looks, *others)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What can be seen: all of every job at least."""

    records: list[JobRecord]
    jobs: list[Job] = []
    letters: list[DeadLetter] = []
    events: list[SentEvent] = []
    queues: list[QueueView] = []
    types: list[TypeView] = []
    count: int = 0
    app_limit: int | None = None
    workers: list[WorkerInfo] = []
    crons: CronList | None = None
    got: list[Job | None] = []
    attempts: list[list[Attempt] | None] = []
    situations: list[Situation | None] = []
    dependencies: list[list[Dependency]] = []
    dependents: list[list[str]] = []


def _look(ask: Ask, job_ids: Sequence[str], is_full: bool) -> Look:
    """Look at every job; in full, look at everything, and at the jobs given from every side."""
    records = ask("dump", 0, DUMP_MAX).records
    if not is_full:
        return Look(records=records)
    return Look(
        records=records,
        jobs=_find(ask, JobFilter(), PAGE_MAX),
        letters=_dead_letters(ask, None, PAGE_MAX),
        events=_events(ask, None, PAGE_MAX),
        queues=ask("queues"),
        types=ask("types"),
        count=ask("count", JobFilter()),
        app_limit=ask("app_limit"),
        workers=ask("workers"),
        crons=ask("crons"),
        got=ask("get", job_ids),
        attempts=[ask("attempts", job_id) for job_id in job_ids],
        situations=[ask("situation", job_id) for job_id in job_ids],
        dependencies=ask("dependencies", job_ids, with_results=True),
        dependents=ask("dependents", job_ids),
    )


def _find(ask: Ask, filter: JobFilter, limit: int) -> list[Job]:
    jobs: list[Job] = []
    after = None
    for _ in range(CALLS_MAX):
        page = ask("find", filter, PageRequest(limit, after))
        assert len(page.jobs) == limit or page.next is None
        jobs += page.jobs
        after = page.next
        if after is None:
            return jobs
    raise AssertionError("the pages of find go round")


def _dead_letters(ask: Ask, type: str | None, limit: int) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    after = None
    for _ in range(CALLS_MAX):
        page = ask("dead_letters", type, PageRequest(limit, after))
        assert len(page.letters) == limit or page.next is None
        letters += page.letters
        after = page.next
        if after is None:
            assert letters == sorted(letters, key=lambda letter: letter.dead_at, reverse=True)
            return letters
    raise AssertionError("the pages of dead_letters go round")


def _events(ask: Ask, name: str | None, limit: int) -> list[SentEvent]:
    """Return the records oldest first, so that those which one store lacks stand at the end."""
    events: list[SentEvent] = []
    after = None
    for _ in range(CALLS_MAX):
        page = ask("events", name, PageRequest(limit, after))
        assert len(page.events) == limit or page.next is None
        events += page.events
        after = page.next
        if after is None:
            return events[::-1]
    raise AssertionError("the pages of events go round")


def _dump(ask: Ask, limit: int) -> list[JobRecord]:
    records: list[JobRecord] = []
    after = 0
    for _ in range(CALLS_MAX):
        page = ask("dump", after, limit)
        records += page.records
        if not page.records:
            assert page.last == after
            return records
        after = page.last
    raise AssertionError("the pages of dump go round")


def _prune(ask: Ask, keep: dict[State, float], limit: int) -> list[int]:
    """Prune step by step to the end; return how many jobs each step deleted.

    Not the last steps if they deleted none: a store need not know that nothing comes behind.
    """
    counts = []
    after = 0
    for _ in range(CALLS_MAX):
        pruned = ask("prune", PruneRequest(keep=keep, after=after, limit=limit))
        counts.append(pruned.count)
        if pruned.next is None:
            break
        assert pruned.next > after
        after = pruned.next
    else:
        raise AssertionError("prune goes round")
    while counts and counts[-1] == 0:
        counts.pop()
    return counts

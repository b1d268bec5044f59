"""What the machine asks of the model and of every store alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.bounds import DUMP_MAX, PAGE_MAX
from fencepost.core.events import SentEvent
from fencepost.core.filter import JobFilter
from fencepost.core.job.job import Attempt, DeadLetter, Dependency, Job, JobRecord
from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Situation
from fencepost.core.stats.statistics import EndedJob
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.crons import CronList
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.testing.clock import START
from lab.model import pages
from lab.model.choices import WORKERS
from lab.model.pages import CALLS_MAX, Ask
from lab.model.text import told


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
        whole = _WHOLE.get(self.name)
        if whole is not None:
            return whole(asked, *self.arguments)
        if self.is_atomic is None:
            return asked(self.name, *self.arguments)
        return asked(self.name, *self.arguments, atomic=self.is_atomic)

    @property
    def is_single(self) -> bool:
        """Whether it is one operation that writes, and so can be cut."""
        others = ("get", "count", "attempts", "situation", "tidy", "dependencies", "dependents")
        return self.name not in (*_WHOLE, *others, "tokens")


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What can be seen: all of every job at least."""

    records: list[JobRecord]
    jobs: list[Job] = []
    selected: int = 0
    letters: list[DeadLetter] = []
    events: list[SentEvent] = []
    queues: list[QueueView] = []
    types: list[TypeView] = []
    count: int = 0
    app_limit: int | None = None
    workers: list[WorkerInfo] = []
    crons: CronList | None = None
    ended: list[EndedJob] = []
    tokens: list[TokenRecord] = []
    actions: list[Action] = []
    got: list[Job | None] = []
    attempts: list[list[Attempt] | None] = []
    situations: list[Situation | None] = []
    dependencies: list[list[Dependency]] = []
    dependents: list[list[str]] = []
    held: list[list[str]] = []
    """Which jobs each worker has leases on. Tokens are compared where they are given."""


def _look(ask: Ask, job_ids: Sequence[str], is_full: bool) -> Look:
    """Look at every job; in full, look at everything, and at the jobs given from every side."""
    records = ask("dump", 0, DUMP_MAX).records
    if not is_full:
        return Look(records=records)
    return Look(
        records=records,
        jobs=pages.find(ask, JobFilter(), PAGE_MAX),
        selected=len(pages.select(ask, JobFilter(), PAGE_MAX)),
        letters=pages.dead_letters(ask, None, PAGE_MAX),
        events=pages.events(ask, None, PAGE_MAX),
        queues=ask("queues"),
        types=ask("types"),
        count=ask("count", JobFilter()),
        app_limit=ask("app_limit"),
        workers=ask("workers"),
        crons=ask("crons"),
        ended=pages.ended(ask, START, PAGE_MAX, newest_first=False),
        tokens=ask("tokens"),
        actions=pages.actions(ask, PAGE_MAX),
        got=ask("get", job_ids),
        attempts=[ask("attempts", job_id) for job_id in job_ids],
        situations=[ask("situation", job_id) for job_id in job_ids],
        dependencies=ask("dependencies", job_ids, with_results=True),
        dependents=ask("dependents", job_ids),
        held=[[lease.job_id for lease in ask("held", [worker])] for worker in WORKERS],
    )


def _prune(
    ask: Ask, keep: dict[State, float], by_type: dict[str, dict[State, float]], limit: int
) -> list[int]:
    """Prune step by step to the end; return how many jobs each step deleted.

    Not the last steps if they deleted none: a store need not know that nothing comes behind.
    """
    counts = []
    after = 0
    for _ in range(CALLS_MAX):
        request = PruneRequest(keep=keep, keep_by_type=by_type, after=after, limit=limit)
        pruned = ask("prune", request)
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


_WHOLE: dict[str, Callable[..., Any]] = {
    "find": pages.find,
    "dead_letters": pages.dead_letters,
    "events": pages.events,
    "actions": pages.actions,
    "ended": pages.ended,
    "dump": pages.dump,
    "prune": _prune,
    "look": _look,
}

"""How the rules act: calls, the faults that befall them, and what there is to call with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from random import Random
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from msgspec.structs import replace

from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.job import Body, ClaimedJob, Job, JobRecord, NewJob, Progress
from fencepost.core.job.outcome import (
    Failed,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    decide,
)
from fencepost.store.interface.queue import Beat, Claim, ClaimRequest, Save
from lab.model import choices, rules
from lab.model.calls import Call
from lab.model.choices import Wished
from lab.model.comparison import Comparison, Difference
from lab.model.deliveries import is_delivery
from lab.model.names import NAMED, renamed
from lab.model.subjects import Subject

Reference = int | str
UNKNOWN = "7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11"
SIDES_MAX = 3
"""How many jobs are looked at from every side after a call; all are at the end."""
LEARNT_MAX = 40
"""How many leases are remembered, to be used when they are long over."""


class Fault(Enum):
    """What befalls a call, which is then repeated."""

    FAILS = "it fails before its commit"
    IS_LOST = "its answer is lost"
    REQUEST_CUT = "its request is cut off"
    ANSWER_CUT = "its answer is cut off"


@dataclass
class Ledger:
    """What a run has done so far."""

    operations: int = 0
    """Calls whose answer was compared on every store."""
    looks: int = 0
    sequences: int = 0
    faults: int = 0
    zombies: int = 0
    history: list[str] = field(default_factory=list)
    """The calls of the latest sequence."""

    def begin(self, comparison: Comparison) -> None:
        """Note that a sequence begins."""
        self.sequences += 1
        self.history = comparison.history


class Acting(RuleBasedStateMachine):
    """What the rules have in common. ``subjects`` are the stores; a run sets them."""

    subjects: ClassVar[Sequence[Subject]] = ()
    ledger: ClassVar[Ledger]

    def __init__(self) -> None:
        super().__init__()
        self.grips: list[ClaimedJob] = []
        self.last: Call | None = None
        self.fault: Fault | None = None

    @initialize(is_async=st.booleans())
    def begin(self, is_async: bool) -> None:
        self.comparison = Comparison(self.subjects, is_async=is_async)
        self.ledger.begin(self.comparison)

    def teardown(self) -> None:
        if self.comparison.is_broken:  # what else differs now would only hide what came first
            return
        self.comparison.look(list(self.comparison.model.world.jobs), is_full=True)
        self.ledger.looks += self.comparison.looks

    # Calling.

    def do(self, name: str, *arguments: Any, is_atomic: bool | None = None) -> Any:
        """Make a call, through its fault if there is to be one, and look at what came of it."""
        call = self._settled(Call(name, arguments, is_atomic))
        if self.fault is not None and call.is_single:
            fault, self.fault = self.fault, None
            self.ledger.faults += 1
            self._suffer(call, fault)
            # At everything: the repeat that follows would cover up what was done by half.
            self.comparison.look(self._mentioned(call), is_full=True)
            call = self._settled(call)
        self.last = call
        self.ledger.operations += 1
        answer = self.comparison.do(call)
        if isinstance(answer, Claim):
            self.grips = [*reversed(answer.jobs), *self.grips][:LEARNT_MAX]
        self.comparison.look(self._mentioned((call, answer)))
        return answer

    def _suffer(self, call: Call, fault: Fault) -> None:
        match fault:
            case Fault.FAILS:
                self.comparison.fail(call)
            case Fault.IS_LOST:
                self.comparison.lose(call)
            case Fault.REQUEST_CUT:
                self.comparison.cut(call, is_heard=False)
            case Fault.ANSWER_CUT:
                self.comparison.cut(call, is_heard=True)

    def _mentioned(self, value: Any) -> list[str]:
        """Return some of the jobs of which *value* speaks."""
        found: dict[str, None] = {}

        def note(text: str) -> str:
            if text.startswith(NAMED[0]) and "." not in text:
                found[text] = None
            return text

        renamed(value, note)
        return [each for each in found if not self._is_unheard_of(each)][-SIDES_MAX:]

    def _is_unheard_of(self, job_id: str) -> bool:
        """Tell whether it is a delivery whose ids in the stores are still to be learnt."""
        kept = self.comparison.model.world.get(job_id)
        if kept is None or not is_delivery(kept.job):
            return False
        return not all(each.names.are_known([kept.id]) for each in self.subjects)

    # Finding what to call with.

    def _job_id(self, reference: Reference) -> str:
        newest_first = [*reversed(self.comparison.model.world.jobs)]
        match reference:
            case int() if newest_first:
                return newest_first[reference % len(newest_first)]
            case "upper" if newest_first:
                return newest_first[0].upper()
            case "malformed":
                return "no id"
        return UNKNOWN

    def _job_ids(self, references: Sequence[Reference]) -> list[str]:
        return [self._job_id(reference) for reference in references]

    def _grip(self, number: int) -> ClaimedJob:
        return self.grips[number % len(self.grips)]

    def _settlement(self, grip: ClaimedJob, outcome: Outcome) -> Settlement:
        """Decide as a worker would; the rules of the model must decide alike."""
        decision = decide(grip, outcome, Random(0))
        expected = rules.decision(
            attempt=grip.attempt,
            max_attempts=grip.max_attempts,
            policy=grip.policy,
            outcome=outcome,
        )
        if decision != expected:
            raise Difference(f"after {outcome} of {grip}: {decision}, the model says {expected}")
        return Settlement(grip.id, grip.lease.token, decision)

    def _settle(self, grip: ClaimedJob, *outcomes: Outcome) -> None:
        self.do("settle", [self._settlement(grip, outcome) for outcome in outcomes])

    def _wished(self, wished: Sequence[Wished]) -> list[NewJob]:
        """Return new jobs behind those that they wish for, as far as there are any."""
        jobs: list[NewJob] = []
        stored = self.comparison.model.world.jobs
        for place, (job, wish) in enumerate(wished):
            on: dict[str | int, None] = {}
            if wish is not None and stored:
                on |= dict.fromkeys(self._job_ids(wish.stored))
            if wish is not None and place:
                on |= dict.fromkeys(each % place for each in wish.places)
            after = Dependencies(tuple(on), wish.mode, wish.gathers) if wish and on else None
            jobs.append(replace(job, after=after))
        return jobs

    # What the specification leaves open is not put to the stores, see ``reference``.

    def _settled(self, call: Call) -> Call:
        """Return *call*, or one like it that can be answered in one way only."""
        match call.name, call.arguments:
            case "recover", (limit,):
                ends = [lease.expires_at for lease in self.comparison.model.world.leases()]
                call = replace(call, arguments=(_settled_limit(limit, ends),))
            case "expire", (limit,):
                call = replace(call, arguments=(_settled_limit(limit, self._ends()),))
            case "promote", (limit,):
                call = replace(call, arguments=(_settled_limit(limit, self._due()),))
            case "claim", (ClaimRequest(types=None) as request,) if self._has_callbacks():
                # Which of several deliveries is claimed first is open, and so is their jitter.
                others = replace(request, types=frozenset(choices.TYPES))
                call = replace(call, arguments=(others,))
        while failed := self.comparison.open_failures(call):
            self.do("cancel", failed[:1])  # then it fails nothing else that *call* ends
        return call

    def _jobs(self) -> list[Job]:
        return [kept.job for kept in self.comparison.model.world.jobs.values()]

    def _has_callbacks(self) -> bool:
        return any(job.callback_url is not None or is_delivery(job) for job in self._jobs())

    def _ends(self) -> list[datetime]:
        """Return when lifetimes end, if those of deliveries are among them."""
        live = [job for job in self._jobs() if job.state not in rules.ENDED]
        return [job.expires_at for job in live] if any(map(is_delivery, live)) else []

    def _due(self) -> list[datetime]:
        """Return when jobs fall due, if deliveries are among them."""
        waiting = [job for job in self._jobs() if job.state in rules.WAITING_FOR_TIME]
        return [job.run_at for job in waiting] if any(map(is_delivery, waiting)) else []

    # Longer acts.

    def _advance_to(self, instant: datetime) -> None:
        if instant > self.comparison.now:
            self.comparison.advance(instant - self.comparison.now)
            self.comparison.look()

    def _write_everything(self, grip: ClaimedJob, outcome: Outcome) -> None:
        """Make every kind of write under one lease, the one that ends it being *outcome*."""
        self.do("heartbeat", [Beat(grip.id, grip.lease.token, 1.0)])
        self.do(
            "save",
            [Save(grip.id, grip.lease.token, Body(b'"mine"'), Progress(fraction=0.9, message=""))],
        )
        self._settle(grip, outcome)
        rest = (Succeeded(Body(b"1")), Failed(choices.FAILURES[0]), Snoozed(1.0), Released())
        self._settle(grip, *rest)

    def _ask_model(self, name: str, *args: Any) -> Any:
        return getattr(self.comparison.model, name)(*args)

    def _copies(self, records: Sequence[JobRecord], *, has_key: bool) -> list[JobRecord]:
        """Return *records* as new jobs, who wait for each other as they did."""
        ids = {record.job.id: self.comparison.model.new_id() for record in records}
        return [self._copy(record, ids, has_key=has_key) for record in records]

    def _copy(self, record: JobRecord, ids: dict[str, str], *, has_key: bool) -> JobRecord:
        new_id = ids[record.job.id]
        attempts = tuple(
            replace(
                attempt,
                id=attempt.id.replace(record.job.id, new_id),
                job_id=new_id,
                previous_id=attempt.previous_id
                and attempt.previous_id.replace(record.job.id, new_id),
            )
            for attempt in record.attempts
        )
        holds = has_key and record.holds_key
        return replace(
            record,
            job=replace(record.job, id=new_id),
            attempts=attempts,
            holds_key=holds,
            key_ends_at=record.key_ends_at if holds else None,
            dependencies=tuple(ids.get(each, each) for each in record.dependencies),
        )


def _settled_limit(limit: int, instants: list[datetime]) -> int:
    """Leave no choice between what comes in the same instant."""
    ends = sorted(instants)
    is_tie = 0 < limit < len(ends) and ends[limit - 1] == ends[limit]
    return 100 if is_tie else limit

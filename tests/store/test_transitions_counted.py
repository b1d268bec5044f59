"""Every transition of the table is counted once, whoever makes it; and the counts add up.

On the memory store: what is counted is read off the replies, which conformance makes the same on
every store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fencepost import NewJob, State
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.job import Body, Category, ClaimedJob, Failure
from fencepost.core.job.lifecycle import TRANSITIONS, Event
from fencepost.core.job.outcome import (
    Failed,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    decide,
)
from fencepost.core.job.policy import Policy
from fencepost.observe.counters import Counters
from fencepost.store.interface.control import Edit, RetryRequest
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.memory.store import MemoryStore
from fencepost.store.wrappers.observed import observed
from fencepost.store.wrappers.transitions import LABELS
from fencepost.testing.clock import FakeClock

DONE = Succeeded(Body(b"1"))
TROUBLE = Failed(Failure(Category.TEMPORARY, "trouble"))
REFUSED = Failed(Failure(Category.PERMANENT, "no"))
ONCE = Policy(max_attempts=1)
ALONE = Policy(max_running_per_key=1)


class Rig:
    """A memory store, observed, and the ways in which jobs are moved."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.counters = Counters()
        self.store = observed(MemoryStore(clock=self.clock), self.counters)

    def submit(self, type: str = "t", **fields: Any) -> str:
        [reply] = self.store.run(self.store.queue.enqueue([NewJob(type=type, **fields)]))
        return reply.job_id

    def take(self, **fields: Any) -> ClaimedJob:
        self.submit(**fields)
        return self.claim()

    def claim(self) -> ClaimedJob:
        [job] = self.store.run(self.store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
        return job

    def settle(self, job: ClaimedJob, outcome: Outcome) -> None:
        decision = decide(job, outcome, self.clock.rng)
        self.store.run(self.store.queue.settle([Settlement(job.id, job.lease.token, decision)]))

    def cancel(self, job_id: str) -> None:
        self.store.run(self.store.control.cancel([job_id]))

    def expire(self) -> None:
        self.clock.advance("8d")
        self.store.run(self.store.upkeep.expire(10))

    def promote(self) -> None:
        self.clock.advance("1h")
        self.store.run(self.store.upkeep.promote(10))

    def retry(self, job_id: str, **fields: Any) -> None:
        self.store.run(self.store.control.retry([RetryRequest(job_id, **fields)]))

    def postpone(self, job_id: str) -> None:
        later = self.clock.now() + timedelta(minutes=1)
        self.store.run(self.store.control.edit([Edit(job_id, run_at=later)]))

    def waiting(self, on: ClaimedJob, mode: Mode = Mode.ALL, **fields: Any) -> str:
        return self.submit("d", after=Dependencies((on.id,), mode), **fields)

    def keyed(self, **fields: Any) -> str:
        return self.submit(policy=ALONE, concurrency_key="k", **fields)

    def seen(self, type: str = "t") -> Counter[tuple[str, str]]:
        """Return how often each event has led jobs of a type to each state."""
        seen: Counter[tuple[str, str]] = Counter()
        for name, labels, total in self.counters.read():
            held = dict(labels)
            if name.startswith(("job.", "lease.")) and held.get("type") == type:
                seen[held["event"], held["state"]] += int(total)
        return seen


def ready_from_pending(rig: Rig) -> Callable[[], object]:
    job = rig.take()
    rig.waiting(job, Mode.ENDED)
    return lambda: rig.settle(job, DONE)


def delay_from_pending(rig: Rig) -> Callable[[], object]:
    job = rig.take()
    rig.waiting(job, delay=600.0)
    return lambda: rig.settle(job, DONE)


def end_from_pending(outcome: Outcome, policy: Policy) -> Callable[[Rig], Callable[[], object]]:
    def prepare(rig: Rig) -> Callable[[], object]:
        job = rig.take(policy=policy)
        rig.waiting(job)
        return lambda: rig.settle(job, outcome)

    return prepare


def pending(rig: Rig, then: Callable[[str], object]) -> Callable[[], object]:
    job_id = rig.waiting(rig.take(policy=Policy(lifetime=20 * 86_400.0)))
    return lambda: then(job_id)


def running(outcome: Outcome, **fields: Any) -> Callable[[Rig], Callable[[], object]]:
    def prepare(rig: Rig) -> Callable[[], object]:
        job = rig.take(**fields)
        return lambda: rig.settle(job, outcome)

    return prepare


def retrying(rig: Rig, then: Callable[[str], object], **fields: Any) -> Callable[[], object]:
    job = rig.take(**fields)
    rig.settle(job, TROUBLE)
    return lambda: then(job.id)


def held_up(rig: Rig, job_id: str) -> Callable[[], object]:
    rig.keyed()
    return rig.promote


def reopened(state: State, **fields: Any) -> Callable[[Rig], Callable[[], object]]:
    def prepare(rig: Rig) -> Callable[[], object]:
        return lambda: rig.retry(ended(rig, state).id, **fields)

    return prepare


def ended(rig: Rig, state: State) -> ClaimedJob:
    job = rig.take(policy=ONCE if state is State.DEAD_LETTER else Policy())
    if state is State.CANCELLED:
        rig.cancel(job.id)
    else:
        rig.settle(job, TROUBLE if state is State.DEAD_LETTER else REFUSED)
    return job


Case = Callable[[Rig], Callable[[], object]]

CASES: dict[tuple[State, Event], Case] = {
    (State.PENDING, Event.READY): ready_from_pending,
    (State.PENDING, Event.DELAY): delay_from_pending,
    (State.PENDING, Event.REJECT): end_from_pending(REFUSED, Policy()),
    (State.PENDING, Event.EXHAUST): end_from_pending(TROUBLE, ONCE),
    (State.PENDING, Event.CANCEL): lambda rig: pending(rig, rig.cancel),
    (State.PENDING, Event.EXPIRE): lambda rig: pending(rig, lambda _: rig.expire()),
    (State.DELAYED, Event.READY): lambda rig: (rig.submit(delay=60.0), rig.promote)[1],
    (State.DELAYED, Event.BLOCK): lambda rig: held_up(rig, rig.keyed(delay=60.0)),
    (State.DELAYED, Event.CANCEL): lambda rig: lambda: rig.cancel(rig.submit(delay=60.0)),
    (State.DELAYED, Event.EXPIRE): lambda rig: (rig.submit(delay=6e5), rig.expire)[1],
    (State.SCHEDULED, Event.CLAIM): lambda rig: (rig.submit(), rig.claim)[1],
    (State.SCHEDULED, Event.POSTPONE): lambda rig: lambda: rig.postpone(rig.submit()),
    (State.SCHEDULED, Event.CANCEL): lambda rig: lambda: rig.cancel(rig.submit()),
    (State.SCHEDULED, Event.EXPIRE): lambda rig: (rig.submit(), rig.expire)[1],
    (State.RUNNING, Event.SUCCEED): running(DONE),
    (State.RUNNING, Event.REJECT): running(REFUSED),
    (State.RUNNING, Event.RETRY): running(TROUBLE),
    (State.RUNNING, Event.EXHAUST): running(TROUBLE, policy=ONCE),
    (State.RUNNING, Event.RELEASE): running(Released()),
    (State.RUNNING, Event.SNOOZE): running(Snoozed(5.0)),
    (State.RUNNING, Event.CANCEL): lambda rig: lambda: rig.cancel(rig.take().id),
    (State.RUNNING, Event.EXPIRE): lambda rig: (rig.take(), rig.expire)[1],
    (State.RETRYING, Event.READY): lambda rig: retrying(rig, lambda _: rig.promote()),
    (State.RETRYING, Event.BLOCK): lambda rig: retrying(
        rig, lambda job_id: held_up(rig, job_id)(), policy=ALONE, concurrency_key="k"
    ),
    (State.RETRYING, Event.CANCEL): lambda rig: retrying(rig, rig.cancel),
    (State.RETRYING, Event.EXPIRE): lambda rig: retrying(rig, lambda _: rig.expire()),
}
for ended_state in (State.FAILED, State.DEAD_LETTER, State.CANCELLED):
    CASES[ended_state, Event.REOPEN] = reopened(ended_state)
    CASES[ended_state, Event.REOPEN_LATER] = reopened(ended_state, delay=60.0)

NEVER_MADE_ALONE = {(State.RETRYING, Event.EXHAUST)} | {
    (state, Event.REOPEN_WAITING) for state in (State.FAILED, State.DEAD_LETTER, State.CANCELLED)
}
"""The first nobody makes today; the others need a graph, and are of the kind of those tested."""


def test_every_transition_of_the_table_has_its_case() -> None:
    table = {(state, event) for state, events in TRANSITIONS.items() for event in events}
    assert set(CASES) == table - NEVER_MADE_ALONE
    assert {event.name.lower() for event in Event} | {"submit"} == set(LABELS)


@pytest.mark.parametrize(("was", "event"), CASES)
def test_a_transition_is_counted_once(was: State, event: Event) -> None:
    """S4-12: by what happened and where it led."""
    rig = Rig()
    make = CASES[was, event](rig)
    key = (event.name.lower(), TRANSITIONS[was][event].value)
    type_ = "d" if was is State.PENDING else "t"  # what waits is of a type of its own
    before = rig.seen(type_)[key]
    make()
    assert rig.seen(type_)[key] - before == 1


def test_an_expired_lease_is_counted_as_a_transition_and_as_recovered() -> None:
    """S4-12: one that is tried again, and one that was the last."""
    rig = Rig()
    rig.take()
    rig.take(policy=ONCE)
    rig.clock.advance("1h")
    rig.store.run(rig.store.upkeep.recover(10))
    assert rig.seen()["retry", "retrying"] == rig.seen()["exhaust", "dead_letter"] == 1
    assert rig.counters.get("lease.recovered") == rig.counters.get("lease.exhausted") == 1


def test_what_a_claim_promotes_on_its_way_is_counted_as_ready_or_as_held() -> None:
    """S2-12: a claim says how many there were, not which."""
    rig = Rig()
    rig.submit(delay=60.0)
    for _ in range(3):
        rig.keyed(delay=60.0)
    rig.clock.advance(60)
    rig.store.run(rig.store.queue.claim(ClaimRequest(worker="w", limit=10)))
    assert rig.counters.get("job.promoted", event="ready", state="scheduled") == 2
    assert rig.counters.get("job.promoted", event="block", state="pending") == 2
    assert rig.seen()["claim", "running"] == 2


def test_types_beyond_the_bound_share_a_label() -> None:
    """S2-38: a label a type would let whoever submits fill the monitor's disk."""
    rig = Rig()
    jobs = [NewJob(type=f"t{number:03}") for number in range(150)]
    rig.store.run(rig.store.queue.enqueue(jobs))
    types = {dict(labels)["type"] for _, labels, _ in rig.counters.read() if len(labels) == 3}
    assert len(types) == 101
    assert "other" in types
    assert rig.counters.get("job.enqueued") == 150
    assert rig.counters.get("job.enqueued", type="other") == 50


def test_claims_note_for_how_long_jobs_had_waited() -> None:
    """S4-12: by type and queue."""
    rig = Rig()
    rig.submit("a", queue="x")
    rig.submit("b", queue="y")
    rig.clock.advance(0.3)
    rig.submit("a", queue="x")
    rig.store.run(rig.store.queue.claim(ClaimRequest(worker="w", limit=10)))
    waits = {lane: (each.count, round(each.sum, 6)) for lane, each in rig.counters.waits.read()}
    assert waits == {("a", "x"): (2, 0.3), ("b", "y"): (1, 0.3)}


def test_what_an_edit_or_a_retry_of_a_live_job_moves_is_counted() -> None:
    """S4-12, C45, C46: each once, and nothing if it goes on waiting."""
    rig = Rig()
    first, second = rig.keyed(), rig.keyed()
    rig.postpone(first)
    rig.postpone(second)
    rig.retry(first, delay=30.0)
    rig.retry(first)
    assert rig.seen() == Counter(
        {
            ("submit", "scheduled"): 1,
            ("submit", "pending"): 1,
            ("postpone", "delayed"): 2,
            ("ready", "scheduled"): 2,
        }
    )

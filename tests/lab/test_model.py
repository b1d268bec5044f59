"""The reference model, and a share of the sequences that compare every store with it.

``python -m lab.model --operations 100000`` runs more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product

import pytest
from tests.thoroughness import IS_FULL

from fencepost.core.filter import PageRequest
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.flows.dependents import judge
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import AttemptOutcome, Body, Category, ClaimedJob, Failure, NewJob
from fencepost.core.job.lifecycle import TRANSITIONS, State
from fencepost.core.job.outcome import Decision, Failed, Outcome, Released, Settlement, Snoozed
from fencepost.core.job.outcome import Succeeded as Success
from fencepost.core.job.policy import Backoff, Policy, Priority
from fencepost.core.limits.weights import deal
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.queue import (
    AlreadySettled,
    Beat,
    ClaimRequest,
    Duplicate,
    Enqueued,
    Extended,
    LeaseLost,
    Moved,
    Settled,
)
from fencepost.store.interface.settings import Scope
from fencepost.store.sql.codec import RUNNING
from fencepost.store.sqlite.jobs import settle as settling
from fencepost.store.sqlite.jobs.finish import LiveRow
from fencepost.testing.clock import START
from lab.model import rules
from lab.model.action import Ledger
from lab.model.calls import Call
from lab.model.comparison import PLACES, Comparison, Difference
from lab.model.reference import Reference
from lab.model.run import compare, machine_of
from lab.model.subjects import MemorySubject, SqliteSubject, subjects

INSTANT = timedelta(microseconds=1)
DONE = Success(Body(b'"done"'))
TROUBLE = Failed(Failure(Category.TEMPORARY, "trouble"))


# The stores and the model, side by side.


def test_every_store_answers_as_the_model_does(postgres_url: str) -> None:
    with subjects(("memory", "sqlite", "postgres"), postgres_url) as opened:
        machine = machine_of(opened, Ledger())
        assert compare(machine, seed=None, sequences=20, steps=30) == []
    assert machine.ledger.operations > 250


def test_redis_answers_as_the_model_does(redis_url: str) -> None:
    with subjects(("redis",), None, redis_url) as opened:
        machine = machine_of(opened, Ledger())
        assert compare(machine, seed=None, sequences=60 if IS_FULL else 10, steps=30) == []
    assert machine.ledger.operations > 80


def test_partitions_answer_as_the_model_does_within_what_is_documented(redis_url: str) -> None:
    with subjects(("partitions",), None, redis_url) as opened:
        machine = machine_of(opened, Ledger())
        assert compare(machine, seed=None, sequences=20 if IS_FULL else 6, steps=30) == []
    assert machine.ledger.operations > 80


def test_memory_and_sqlite_answer_as_the_model_does() -> None:
    """More sequences than PostgreSQL has time for."""
    with subjects(("memory", "sqlite"), None) as opened:
        machine = machine_of(opened, Ledger())
        assert compare(machine, seed=None, sequences=100 if IS_FULL else 15) == []
    assert machine.ledger.operations > 300


def test_a_store_that_ignores_the_token_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random calls alone miss it: it takes a worker that comes back after its lease ran out."""

    def is_valid(job: LiveRow | None, job_id: str, secret: str, now: int) -> bool:
        return job is not None and job.number == RUNNING

    monkeypatch.setattr(settling, "is_valid", is_valid)
    with subjects(("sqlite",), None) as opened:
        found = compare(machine_of(opened, Ledger()), seed=None, sequences=60, is_shortened=False)
    assert found
    assert "sqlite differs from the model in" in found[0]
    assert "after:\n" in found[0]


@pytest.fixture
def sqlite() -> Iterator[Comparison]:
    subject = SqliteSubject()
    yield Comparison([subject], is_async=False)
    subject.close()


@pytest.fixture
def memory() -> Iterator[Comparison]:
    subject = MemorySubject()
    yield Comparison([subject], is_async=False)
    subject.close()


def test_the_comparison_tells_what_differs(memory: Comparison) -> None:
    memory.do(Call("enqueue", ([NewJob(type="mail")],)))
    memory.subjects[0].clock.set(START + timedelta(days=8))
    with pytest.raises(Difference, match=r"has also Moved.*\nafter:\n  enqueue"):
        memory.do(Call("expire", (1,)))


# What the sequences found.


def test_sqlite_waits_for_the_leases_that_it_gave(sqlite: Comparison) -> None:
    """It told when leases of the length asked for would end, though each job had its own."""
    policy = Policy(lease_ttl=4.0)
    sqlite.do(Call("enqueue", ([NewJob(type="mail", policy=policy)],)))
    claim = sqlite.do(Call("claim", (ClaimRequest(worker="w", limit=1, lease_ttl=2.0),)))
    assert claim.wait == 4.0


def test_sqlite_lists_no_queue_that_never_had_a_job(sqlite: Comparison) -> None:
    """It listed that of a job which was not stored, because its key was held."""
    jobs = [NewJob(type="mail", queue=queue, key=Key("k")) for queue in ("first", "second")]
    sqlite.do(Call("enqueue", (jobs,)))
    assert [view.name for view in sqlite.do(Call("queues"))] == ["first"]


def test_sqlite_tells_the_state_however_an_id_is_written(sqlite: Comparison) -> None:
    """It told it to one only of two who wrote the same id in capitals and not."""
    (enqueued,) = sqlite.do(Call("enqueue", ([NewJob(type="mail")],)))
    ids = (enqueued.job_id, enqueued.job_id.upper())
    lost = sqlite.do(Call("heartbeat", ([Beat(job_id, "stale", 1.0) for job_id in ids],)))
    assert [reply.state for reply in lost] == [State.SCHEDULED, State.SCHEDULED]


def test_memory_forgets_a_setting_that_is_taken_back(memory: Comparison) -> None:
    """It went on listing a queue or a type that had been paused or limited once."""
    for call in (
        Call("pause", (Scope.QUEUE, "q")),
        Call("resume", (Scope.QUEUE, "q")),
        Call("limit", (Scope.QUEUE, "q", 1)),
        Call("limit", (Scope.QUEUE, "q", None)),
        Call("resume", (Scope.TYPE, "t")),
    ):
        memory.do(call)
    assert memory.do(Call("queues")) == memory.do(Call("types")) == []


def test_memory_counts_nobody_ahead_of_a_job_that_is_not_in_line(memory: Comparison) -> None:
    """It counted those who would be, once the job had become claimable."""
    _, late = memory.do(Call("enqueue", ([NewJob(type="t"), NewJob(type="t", delay=5.0)],)))
    assert memory.do(Call("situation", (late.job_id,))).jobs_ahead == 0


def test_sqlite_tells_once_of_a_job_whose_key_is_submitted_again(sqlite: Comparison) -> None:
    """It stored another delivery for the end of a job each time that its key was submitted."""
    job = NewJob(type="mail", key=Key("k", 60.0), callback_url="https://example.com/hook")
    (enqueued,) = sqlite.do(Call("enqueue", ([job],)))
    sqlite.do(Call("cancel", ([enqueued.job_id],)))
    sqlite.look(is_full=True)
    sqlite.do(Call("enqueue", ([job],)))
    sqlite.look(is_full=True)
    assert [view.name for view in sqlite.do(Call("types"))] == [DELIVERY_TYPE, "mail"]


def test_who_waits_for_a_slot_has_it_when_it_is_left(memory: Comparison) -> None:
    """And stands at the end of the line, as of now."""
    keyed = NewJob(type="mail", concurrency_key="k")
    first, second = memory.do(Call("enqueue", ([keyed, keyed],)))
    assert [first.state, second.state] == [State.SCHEDULED, State.PENDING]
    memory.advance(timedelta(seconds=1))
    (moved,) = memory.do(Call("cancel", ([first.job_id],)))
    assert moved.followed == (Moved(second.job_id, "mail", State.SCHEDULED, State.PENDING),)
    (job,) = memory.do(Call("get", ([second.job_id],)))
    assert job.run_at == job.scheduled_at == memory.now


# The rules, against those of the product.


def test_the_model_and_the_table_of_transitions_agree() -> None:
    for state, events in TRANSITIONS.items():
        assert set(events.values()) == rules.NEXT[state]


@pytest.mark.parametrize("mode", list(Mode))
def test_the_model_judges_who_waits_as_the_product_does(mode: Mode) -> None:
    """S1-60, S1-61, C26, C28: two opinions, for every three states that there can be."""
    for count in range(4):
        for states in product(State, repeat=count):
            missing, failed = rules.awaited(mode, states)
            verdict = judge(mode, states)
            assert verdict.failed_dependency == failed
            if failed is None:
                assert verdict.missing == missing


@pytest.mark.parametrize("weights", [{"a": 1}, {"a": 3, "b": 1}, {"a": 4, "b": 2, "c": 2}])
@pytest.mark.parametrize("turn", [0, 1, 5])
def test_the_model_deals_turns_as_the_product_does(weights: dict[str, int], turn: int) -> None:
    for limit in range(12):
        dealt = deal(weights, turn, limit)
        assert rules.entitled(weights, turn=turn, limit=limit) == dealt
        assert rules.order(weights, turn) == list(dealt)


def test_what_a_queue_cannot_give_the_next_in_turn_gives() -> None:
    model = Reference(START)
    model.enqueue([NewJob(type="mail", queue=queue) for queue in "bbbbbccccc"])
    request = ClaimRequest(worker="w", limit=4, queues={"a": 1, "b": 1, "c": 1}, turn=1)
    assert [job.queue for job in model.claim(request).jobs] == ["b", "b", "b", "c"]


def test_attempts_are_bounded() -> None:
    def after(attempt: int, category: Category, policy: Policy) -> State:
        outcome = Failed(Failure(category, "trouble"))
        given = {"max_attempts": policy.max_attempts, "policy": policy, "outcome": outcome}
        return rules.decision(attempt=attempt, **given).state  # type: ignore[arg-type]

    policy = Policy(max_attempts=2, on_system=False)
    assert after(1, Category.TEMPORARY, policy) is State.RETRYING
    assert after(2, Category.TEMPORARY, policy) is State.DEAD_LETTER
    assert after(1, Category.PERMANENT, policy) is State.FAILED
    assert after(1, Category.SYSTEM, policy) is State.FAILED


# The model itself, where it is subtle.


class Acting:
    """The model, and shorthands."""

    def __init__(self) -> None:
        self.model = Reference(START)

    def wait(self, seconds: float) -> None:
        self.model.now += timedelta(seconds=seconds)

    def go_to(self, instant: datetime) -> None:
        self.model.now = instant

    def enqueue(self, *jobs: NewJob) -> list[str]:
        replies = self.model.enqueue(jobs or [NewJob(type="mail")])
        return [reply.job_id for reply in replies]

    def claim(self, limit: int = 1) -> list[ClaimedJob]:
        return self.model.claim(ClaimRequest(worker="w", limit=limit, lease_ttl=10.0)).jobs

    def settle(self, job: ClaimedJob, outcome: Outcome = DONE) -> object:
        (reply,) = self.model.settle([Settlement(job.id, job.lease.token, decided(job, outcome))])
        return reply

    def state(self, job_id: str) -> State:
        (job,) = self.model.get([job_id])
        assert job is not None
        return job.state


def decided(job: ClaimedJob, outcome: Outcome) -> Decision:
    return rules.decision(
        attempt=job.attempt, max_attempts=job.max_attempts, policy=job.policy, outcome=outcome
    )


@pytest.fixture
def acting() -> Acting:
    return Acting()


def test_a_lease_is_over_at_its_very_end(acting: Acting) -> None:
    acting.enqueue()
    (job,) = acting.claim()
    acting.go_to(job.lease.expires_at - INSTANT)
    assert acting.model.recover(1) == []
    beat = Beat(job.id, job.lease.token, 0.0)
    assert acting.model.heartbeat([beat]) == [Extended(job.id, job.lease.expires_at)]
    acting.go_to(job.lease.expires_at)
    assert acting.model.heartbeat([beat]) == [LeaseLost(job.id, State.RUNNING)]
    assert acting.settle(job) == LeaseLost(job.id, State.RUNNING)
    assert acting.model.recover(1) == [Moved(job.id, "mail", State.RETRYING, State.RUNNING)]


def test_a_repeated_settlement_is_told_apart_from_a_stale_one(acting: Acting) -> None:
    acting.enqueue(NewJob(type="mail", policy=Policy(backoff=Backoff("constant", 0.0))))
    (first,) = acting.claim()
    assert acting.settle(first, TROUBLE) == Settled(first.id, "mail", State.RETRYING)
    (second,) = acting.claim()
    assert acting.settle(first, TROUBLE) == AlreadySettled(first.id, State.RUNNING)
    acting.go_to(second.lease.expires_at)
    acting.model.recover(1)
    # The lost lease settled nothing, so the first is still the last that did.
    assert acting.settle(second) == LeaseLost(first.id, State.RETRYING)
    assert acting.settle(first) == AlreadySettled(first.id, State.RETRYING)


def test_what_is_not_counted_gives_the_attempt_back(acting: Acting) -> None:
    (job_id,) = acting.enqueue(NewJob(type="mail", policy=Policy(max_attempts=1)))
    for outcome in (Released(), Snoozed(0.0)):
        (job,) = acting.claim()
        assert (job.attempt, job.max_attempts) == (1, 1)
        acting.settle(job, outcome)
    (job,) = acting.claim()
    assert job.lease.version == job.last_version + 1
    acting.settle(job, TROUBLE)
    assert acting.state(job_id) is State.DEAD_LETTER
    attempts = acting.model.attempts(job_id)
    assert attempts is not None
    outcomes = [attempt.outcome for attempt in attempts]
    assert outcomes == [AttemptOutcome.RELEASED, AttemptOutcome.SNOOZED, AttemptOutcome.FAILED]


def test_a_key_is_held_while_its_job_lives_and_for_its_window(acting: Acting) -> None:
    new = NewJob(type="mail", key=Key("k", 20.0, OnDuplicate.REJECT))
    (first,) = acting.enqueue(new)
    (job,) = acting.claim()
    acting.settle(job)
    acting.go_to(START + timedelta(seconds=20) - INSTANT)
    expected = Duplicate(first, "mail", "k", State.COMPLETED, is_rejected=True)
    assert acting.model.enqueue([new]) == [expected]
    with pytest.raises(DuplicateJobError):
        acting.model.enqueue([NewJob(type="other"), new], atomic=True)
    assert [view.name for view in acting.model.types()] == ["mail"]
    acting.wait(0.000001)
    (second,) = acting.model.enqueue([new])
    assert isinstance(second, Enqueued)


def test_a_key_without_a_window_is_released_at_the_end(acting: Acting) -> None:
    new = NewJob(type="mail", key=Key("k", None))
    (first,) = acting.enqueue(new)
    acting.model.cancel([first])
    (second,) = acting.enqueue(new)
    assert second != first
    (reply,) = acting.model.retry([RetryRequest(first)])
    assert isinstance(reply, Duplicate)
    assert reply.job_id == second


def test_a_dead_letter_that_is_replayed_hands_its_key_on(acting: Acting) -> None:
    (dead,) = acting.enqueue(NewJob(type="t", key=Key("k", 99.0), policy=Policy(max_attempts=1)))
    (job,) = acting.claim()
    acting.settle(job, TROUBLE)
    (replayed,) = acting.model.replay([dead])
    (again,) = acting.model.enqueue([NewJob(type="t", key=Key("k"))])
    assert isinstance(again, Duplicate)
    assert again.job_id == replayed.job_id
    assert acting.model.dead_letters(None, PageRequest()).letters == []
    assert acting.state(dead) is State.DEAD_LETTER


def test_a_limit_counts_no_lease_that_ran_out(acting: Acting) -> None:
    acting.enqueue(NewJob(type="t"), NewJob(type="t"))
    acting.model.limit(Scope.QUEUE, "default", 1)
    (first,) = acting.claim(5)
    assert acting.claim(5) == []
    acting.go_to(first.lease.expires_at)
    (second,) = acting.claim(5)
    assert second.id != first.id


def test_one_that_waits_for_two_is_let_go_by_the_last(acting: Acting) -> None:
    """S1-60, S1-37."""
    first, second, last = acting.enqueue(
        NewJob(type="a"),
        NewJob(type="a", priority=Priority.HIGH),
        NewJob(type="b", after=Dependencies((0, 1))),
    )
    for job in acting.claim(5):
        assert acting.state(last) is State.PENDING
        acting.settle(job)
    (job,) = acting.claim(5)
    assert (job.id, job.priority) == (last, Priority.HIGH)
    assert acting.model.dependents([first, second]) == [[last], [last]]


def test_it_is_left_open_which_of_two_that_end_at_once_ends_a_third(acting: Acting) -> None:
    """So the machine ends one of them first."""
    one, other, _ = acting.enqueue(
        NewJob(type="a"), NewJob(type="a"), NewJob(type="b", after=Dependencies((0, 1)))
    )
    acting.model.begin_call()
    acting.model.cancel([one])
    assert acting.model.open_failures() == []
    acting.model.retry([RetryRequest(job_id) for job_id in acting.model.world.jobs])
    acting.model.begin_call()
    acting.model.cancel([one, other])
    assert sorted(acting.model.open_failures()) == [one, other]


def test_the_reference_has_every_operation_of_a_store() -> None:
    others = {"mark", "fates", "tidy", "inspect"}
    others.add("accept_jobs")  # there is nothing to find where everything is refused
    # No promise rests on these; the conformance suite compares the stores.
    others |= {"series", "series_totals", "record_series"}
    others |= {"refusals", "refusals_total", "record_refusals"}
    others |= {"sessions", "open_session", "close_session"}
    others |= {"replays", "start_replay", "advance_replay", "flows", "gone"}
    assert PLACES.keys() - others <= set(dir(Reference))

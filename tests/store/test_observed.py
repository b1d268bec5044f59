"""A store that is observed: every transition is counted, every refused write is told."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fencepost import NewJob, State
from fencepost.core.events import NewEvent
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, Category, ClaimedJob, Failure
from fencepost.core.job.outcome import (
    Failed,
    Outcome,
    Released,
    Settlement,
    Snoozed,
    Succeeded,
    decide,
    settlement_of,
)
from fencepost.core.job.policy import Policy
from fencepost.errors import DuplicateJobError, StoreUnavailableError
from fencepost.observe.counters import Counters
from fencepost.observe.log import FIELDS
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.queue import Beat, ClaimRequest, Save, Spawn
from fencepost.store.interface.records.crons import CronDefinition, CronFire
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.memory.store import MemoryStore
from fencepost.store.wrappers.observed import observed
from fencepost.testing.clock import FakeClock

TTL = 30.0
ONCE = Policy(max_attempts=1)
TROUBLE = Failed(Failure(Category.TEMPORARY, "trouble"))
DONE = Succeeded(Body(b"1"))


class Rig:
    """A memory store, observed."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.counters = Counters()
        self.inner = MemoryStore(clock=self.clock)
        self.store: Store = observed(self.inner, self.counters)

    def enqueue(self, **fields: Any) -> str:
        [reply] = self.store.run(self.store.queue.enqueue([NewJob(type="t", **fields)]))
        return reply.job_id

    def take(self, **fields: Any) -> ClaimedJob:
        if fields or not self.inner.run(self.inner.overview.queues()):
            self.enqueue(**fields)
        request = ClaimRequest(worker="w", limit=1, lease_ttl=TTL)
        [job] = self.store.run(self.store.queue.claim(request)).jobs
        return job

    def settle(self, job: ClaimedJob, outcome: Outcome) -> None:
        decision = decide(job, outcome, self.clock.rng)
        self.store.run(self.store.queue.settle([Settlement(job.id, job.lease.token, decision)]))

    def counts(self, *prefixes: str) -> dict[str, float]:
        snapshot = self.counters.snapshot()
        return {name: n for name, n in snapshot.items() if name.startswith(prefixes)}


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize(
    ("outcome", "policy", "event", "state"),
    [
        (DONE, Policy(), "succeed", "completed"),
        (TROUBLE, Policy(), "retry", "retrying"),
        (TROUBLE, ONCE, "exhaust", "dead_letter"),
        (Failed(Failure(Category.PERMANENT, "no")), Policy(), "reject", "failed"),
        (Snoozed(5.0), Policy(), "snooze", "delayed"),
        (Released(), Policy(), "release", "scheduled"),
    ],
)
def test_every_settlement_is_counted_by_the_state_it_led_to(
    rig: Rig, outcome: Outcome, policy: Policy, event: str, state: str
) -> None:
    """S4-12."""
    rig.settle(rig.take(policy=policy), outcome)
    assert rig.counts("job.") == {
        "job.enqueued{event=submit,state=scheduled,type=t}": 1,
        "job.claimed{event=claim,state=running,type=t}": 1,
        f"job.settled{{event={event},state={state},type=t}}": 1,
    }


def test_submissions_are_counted_by_state_and_duplicates_apart(rig: Rig) -> None:
    """S1-9."""
    rig.enqueue(delay=60.0)
    rig.enqueue(key=Key("k"))
    rig.enqueue(key=Key("k"))
    assert rig.counts("job.") == {
        "job.enqueued{event=submit,state=delayed,type=t}": 1,
        "job.enqueued{event=submit,state=scheduled,type=t}": 1,
        "job.duplicate": 1,
    }


def test_the_jobs_of_an_event_are_counted_as_submissions(rig: Rig) -> None:
    """S1-9, S3-16: and the event beside them."""
    key = Key("k")
    jobs = [NewJob(type="a", key=key), NewJob(type="b", delay=60.0)]
    rig.store.run(rig.store.events.send(NewEvent("x"), jobs))
    rig.store.run(rig.store.events.send(NewEvent("x"), jobs[:1]))
    assert rig.counts("job.") == {
        "job.enqueued{event=submit,state=delayed,type=b}": 1,
        "job.enqueued{event=submit,state=scheduled,type=a}": 1,
        "job.duplicate": 1,
    }
    assert rig.counters.get("event.sent") == 2
    rig.store.run(rig.store.events.prune(0.0, 10))
    rig.store.run(rig.store.events.prune(0.0, 10))
    assert rig.counters.get("event.pruned") == 2


def test_what_operators_do_is_counted(rig: Rig) -> None:
    store = rig.store
    first = rig.enqueue()
    store.run(store.control.cancel([first]))
    store.run(store.control.cancel([first]))
    store.run(store.control.retry([RetryRequest(first)]))
    rig.settle(rig.take(), Failed(Failure(Category.PERMANENT, "no")))
    store.run(store.control.replay([first]))
    second = rig.take()
    rig.settle(second, Failed(Failure(Category.PERMANENT, "no")))
    store.run(store.control.discard([second.id]))
    store.run(store.control.discard([second.id]))
    for name in ("job.cancelled", "job.reopened", "job.replayed", "job.discarded"):
        assert rig.counters.get(name) == 1, name


def test_upkeep_is_counted(rig: Rig) -> None:
    """S4-12."""
    store = rig.store
    rig.enqueue(delay=10.0)
    rig.clock.advance(10)
    store.run(store.upkeep.promote(10))
    rig.enqueue(policy=Policy(lifetime=5.0))
    rig.clock.advance(5)
    store.run(store.upkeep.expire(10))
    rig.clock.advance("1d")
    keep = {State.DEAD_LETTER: 60.0}
    store.run(store.upkeep.prune(PruneRequest(keep=keep, limit=10)))
    assert rig.counters.get("job.promoted") == 1
    assert rig.counters.get("job.expired", state="dead_letter") == 1
    assert rig.counters.get("job.pruned") == 1


@pytest.mark.parametrize("way", ["recover", "claim"])
def test_recovered_and_exhausted_leases_are_counted_and_logged(
    rig: Rig, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S4-12, S4-14: whether a sweep took them back or a claim on its way."""
    store = rig.store
    again, last = rig.take(policy=Policy()), rig.take(policy=ONCE)
    rig.clock.advance(TTL)
    if way == "recover":
        store.run(store.upkeep.recover(10))
    else:
        store.run(store.queue.claim(ClaimRequest(worker="w", limit=1)))
    assert rig.counts("lease.") == {
        "lease.recovered{event=retry,state=retrying,type=t}": 1,
        "lease.exhausted{event=exhaust,state=dead_letter,type=t}": 1,
    }
    told = {
        vars(record)["fencepost_fields"]["id"]: (vars(record)["fencepost_event"], record.levelno)
        for record in caplog.records
    }
    assert told == {
        again.id: ("lease.recovered", logging.WARNING),
        last.id: ("lease.exhausted", logging.ERROR),
    }


def test_promotions_and_expiries_inside_a_claim_are_counted_too(rig: Rig) -> None:
    """S2-12, S4-14."""
    rig.enqueue(delay=10.0)
    rig.enqueue(policy=Policy(lifetime=5.0))
    rig.clock.advance(10)
    store = rig.store
    store.run(store.queue.claim(ClaimRequest(worker="w", limit=5)))
    assert rig.counters.get("job.promoted") == 1
    assert rig.counters.get("job.expired") == 1
    assert rig.counters.get("job.claimed") == 1


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (DONE, "stale.ack"),
        (TROUBLE, "stale.nack"),
        (Snoozed(1.0), "stale.nack"),
        (Released(), "stale.release"),
    ],
)
def test_refused_settlements_are_counted_by_kind_and_logged(
    rig: Rig, outcome: Outcome, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S0-49, S4-12: a zombie is something that somebody should hear of."""
    job = rig.take()
    rig.clock.advance(TTL)
    rig.settle(job, outcome)
    assert rig.counts("stale.") == {name: 1}
    [record] = caplog.records
    assert (vars(record)["fencepost_event"], vars(record)["fencepost_fields"]) == (
        name,
        {"id": job.id, "state": State.RUNNING},
    )


def test_refused_heartbeats_and_saves_are_counted_and_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """S4-12, S2-9."""
    job = rig.take()
    rig.clock.advance(TTL)
    store = rig.store
    store.run(store.queue.heartbeat([Beat(job.id, job.lease.token, TTL)]))
    store.run(store.queue.save([Save(job.id, job.lease.token, checkpoint=Body(b"1"))]))
    assert rig.counts("stale.") == {"stale.heartbeat": 1, "stale.save": 1}
    assert [vars(record)["fencepost_event"] for record in caplog.records] == [
        "stale.heartbeat",
        "stale.save",
    ]


def test_a_repeated_settlement_is_counted_as_what_it_is(rig: Rig) -> None:
    """S0-57."""
    job = rig.take()
    rig.settle(job, DONE)
    rig.settle(job, DONE)
    assert rig.counters.get("settle.repeated") == 1
    assert rig.counters.get("job.settled") == 1
    assert rig.counts("stale.") == {}


async def test_operations_are_counted_and_timed_in_both_colours(rig: Rig) -> None:
    store = rig.store
    store.run(store.overview.queues())
    await store.run_async(store.overview.queues())
    assert rig.counters.get("store.operation", operation="queues") == 2
    assert "store.operation.seconds{operation=queues}" in rig.counters.snapshot()


async def test_failed_operations_are_counted_by_code(rig: Rig) -> None:
    store = rig.store
    rejecting = NewJob(type="t", key=Key("k", on_duplicate=OnDuplicate.REJECT))
    store.run(store.queue.enqueue([rejecting]))
    with pytest.raises(DuplicateJobError):
        store.run(store.queue.enqueue([rejecting], atomic=True))
    operation = store.overview.queues()
    rig.inner.close()
    with pytest.raises(StoreUnavailableError):
        store.run(operation)
    with pytest.raises(StoreUnavailableError):
        await store.run_async(operation)
    failed = "store.operation.failed"
    assert rig.counters.get(failed, operation="enqueue", code="duplicate_key") == 1
    assert rig.counters.get(failed, operation="queues", code="store_unavailable") == 2


def test_all_else_is_the_stores_own(rig: Rig) -> None:
    assert (rig.store.url, rig.store.clock) == ("memory://", rig.clock)
    with pytest.raises(AttributeError):
        rig.store.no_such_thing  # type: ignore[attr-defined]  # noqa: B018 - that is the point


def test_a_fired_cron_is_counted_with_its_jobs(rig: Rig) -> None:
    """S4-12: the jobs as any others, the tick by the cron's name."""
    tick = rig.clock.now()
    times: dict[str, Any] = {"expression": "@daily", "tz": "UTC"}
    definition = CronDefinition(name="c", template=NewJob(type="t"), next_tick=tick, **times)
    rig.store.run(rig.store.crons.declare([definition]))
    jobs = (NewJob(type="t"), NewJob(type="t", delay=5.0))
    fire = CronFire(name="c", expected=tick, jobs=jobs, next_tick=None, **times)
    for _ in range(2):
        rig.store.run(rig.store.crons.fire([fire]))
    assert rig.counts("job.", "cron.") == {
        "cron.fired{cron=c}": 2,
        "job.enqueued{event=submit,state=delayed,type=t}": 1,
        "job.enqueued{event=submit,state=scheduled,type=t}": 1,
    }


def test_the_log_of_a_submission_and_of_a_settlement_names_the_correlation_id(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """S1-108: however the job was submitted."""
    caplog.set_level(logging.DEBUG, logger="fencepost")
    rig.enqueue(correlation_id="order 7")
    rig.enqueue()
    sent = rig.store.run(rig.store.events.send(NewEvent("a"), [NewJob(type="t")]))
    request = ClaimRequest(worker="w", limit=3, lease_ttl=TTL)
    jobs = rig.store.run(rig.store.queue.claim(request)).jobs
    child = NewJob(type="t", key=Key("k", None), correlation_id="child")
    rig.store.run(rig.store.queue.spawn([Spawn(jobs[0].id, jobs[0].lease.token, (child,))]))
    decision = decide(jobs[0], DONE, rig.clock.rng)
    rig.store.run(rig.store.queue.settle([settlement_of(job, decision) for job in jobs]))
    told = [
        (vars(record)["fencepost_event"], getattr(record, FIELDS).get("correlation_id"))
        for record in caplog.records
        if vars(record)["fencepost_event"] in ("job.enqueued", "job.settled")
    ]
    ids = ["order 7", None, sent.event.id]
    assert told == [("job.enqueued", each) for each in [*ids, "child"]] + [
        ("job.settled", each) for each in ids
    ]

"""How much a worker asks for, and when it asks again."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.worker.flaky import FlakyStore, Times

from fencepost import NewJob
from fencepost.core.bounds import (
    CLAIM_MAX,
    LOOK_INTERVAL,
    POLL_INTERVAL,
    UNSETTLED_MAX,
)
from fencepost.core.job.outcome import Released, Succeeded, decide, settlement_of
from fencepost.core.values.payload import NULL as DONE
from fencepost.observe.counters import Counters
from fencepost.store.interface.queue import Claim, ClaimRequest, QueueFacet
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.testing.clock import FakeClock
from fencepost.worker.backoff import StoreBackoff
from fencepost.worker.run.fetcher import Claimer
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.slots import WorkerSlots


class Rig:
    def __init__(self, concurrency: int = 10, **options: Any) -> None:
        self.clock = FakeClock()
        self.store = FlakyStore(MemoryStore(clock=self.clock))
        self.hand = InFlight()
        self.counters = Counters()
        settings: dict[str, Any] = {
            "worker": "w",
            "types": frozenset({"t"}),
            "queues": None,
            "lease_ttl": 30.0,
            **options,
        }
        self.slots = WorkerSlots(concurrency, self.hand)
        self.claimer = Claimer(
            cast(Store, self.store), self.hand, self.counters, self.slots, **settings
        )

    def wanted(self, taken: int) -> int:
        self.slots.taken = taken
        return self.slots.wanted()

    def submit(self, count: int, **fields: Any) -> None:
        store = self.store.inner
        store.run(store.queue.enqueue([NewJob(type="t", **fields)] * count))


def test_a_worker_asks_for_as_many_jobs_as_it_has_free_slots() -> None:
    """S2-38."""
    rig = Rig(concurrency=10)
    assert [rig.wanted(taken) for taken in (0, 4, 9, 10, 12)] == [10, 6, 1, 0, 0]


def test_nothing_is_claimed_while_too_much_is_not_yet_recorded() -> None:
    """S0-30: a worker that ended jobs faster than they are recorded would hold ever more."""
    rig = Rig(concurrency=10)
    store = rig.store.inner
    for _ in range(2):
        rig.submit(UNSETTLED_MAX)
        claim = store.run(store.queue.claim(ClaimRequest(worker="w", limit=UNSETTLED_MAX)))
        rig.hand.take(claim.jobs, asked_at=0.0, answered_at=0.0)
    assert len(rig.hand.held) == 2 * UNSETTLED_MAX
    assert (rig.wanted(10), rig.slots.is_held_up) == (0, True)
    for held in rig.hand.everything()[: UNSETTLED_MAX - 9]:
        rig.hand.drop(held.job.id, held.job.lease.token)
    assert (rig.wanted(8), rig.slots.is_held_up) == (0, True)
    assert (rig.wanted(9), rig.slots.is_held_up) == (1, False)


def test_a_claim_never_asks_for_more_than_its_bound() -> None:
    assert Rig(concurrency=10_000).wanted(0) == CLAIM_MAX


async def test_claimed_jobs_are_in_hand_and_turns_go_on() -> None:
    """S4-3, C14: the next claim deals from where this one left off."""
    rig = Rig(queues={"a": 1, "b": 1})
    rig.submit(10, queue="a")
    rig.submit(10, queue="b")
    queues = []
    for _ in range(6):
        fetched = await rig.claimer.claim(1)
        assert fetched is not None
        queues += [held.job.queue for held in fetched.held]
    assert sorted(queues) == ["a"] * 3 + ["b"] * 3
    assert len(rig.hand.held) == 6


class Asked:
    """A queue that notes where its claims go on."""

    def __init__(self, rig: Rig) -> None:
        self.after: list[int | None] = []
        self._queue = rig.store.inner.queue
        vars(rig.store)["queue"] = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def claim(self, request: ClaimRequest) -> Operation[Claim]:
        self.after.append(request.after)
        return self._queue.claim(request)


async def test_a_worker_looks_at_everything_again_after_a_moment() -> None:
    """C42: a pause, a limit or a job of a new type is not overlooked for longer."""
    rig = Rig()
    asked = Asked(rig)
    rig.submit(9)
    for seconds in (0.0, LOOK_INTERVAL / 2, LOOK_INTERVAL / 2 - 0.001, 0.001, 0.001):
        rig.clock.advance(seconds)
        await rig.claimer.claim(1)
    first, second, third, fourth, fifth = asked.after
    assert None not in (second, third, fifth)
    assert (first, fourth) == (None, None)


async def test_a_worker_of_one_slot_looks_at_everything_each_time() -> None:
    """S2-4: a job may be committed after others that were submitted later."""
    rig = Rig(concurrency=1)
    asked = Asked(rig)
    rig.submit(3)
    for _ in range(3):
        await rig.claimer.claim(1)
    assert asked.after == [None] * 3


async def test_a_worker_looks_at_everything_after_it_gave_a_job_back() -> None:
    """S2-4: or others of its line would be started before that job."""
    rig = Rig()
    asked = Asked(rig)
    rig.submit(9)
    fetched = await rig.claimer.claim(1)
    assert fetched is not None
    (job,) = fetched.claim.jobs
    for outcome in (Succeeded(DONE), Released()):
        rig.slots.settled([settlement_of(job, decide(job, outcome, rig.clock.rng))])
        await rig.claimer.claim(1)
    await rig.claimer.claim(1)
    assert [after is None for after in asked.after] == [True, False, True, False]


async def test_an_outage_is_waited_out_and_claims_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S0-55: with backoff, so that a store that comes back is not run over."""
    rig = Rig()
    rig.submit(1)
    rig.store.is_away = Times(QueueFacet.claim, 3)
    waits = []
    for _ in range(3):
        before = rig.clock.monotonic()
        assert await rig.claimer.claim(1) is None
        waits.append(rig.clock.monotonic() - before)
    assert waits == sorted(waits)
    assert waits[0] > 0
    with caplog.at_level("INFO"):
        fetched = await rig.claimer.claim(1)
    assert fetched is not None
    assert len(fetched.claim.jobs) == 1
    assert rig.counters.get("store.unavailable", during="claim") == 3
    assert caplog.messages == [
        "the store is unavailable (claim): the store is away; it is tried again",
        "the store answers again (claim, after 3 failures)",
    ]


@pytest.mark.parametrize(("wait", "most"), [(None, POLL_INTERVAL), (0.2, 0.2), (60.0, 1.0)])
def test_an_idle_worker_rests_until_the_next_job_is_due_but_never_long(
    wait: float | None, most: float
) -> None:
    """S2-31: bounded idle latency, and no busy loop."""
    claimer = Rig().claimer
    pauses = [claimer.pause_after(Claim(wait=wait)) for _ in range(50)]
    assert max(pauses) <= most
    assert min(pauses) >= 0.2
    if wait != 0.2:
        assert len(set(pauses)) > 1, "workers that poll in step would come all at once"


def test_patience_doubles_within_bounds_varies_and_starts_again() -> None:
    """S0-55: jittered, so that workers do not come back all at once."""
    counters = Counters()
    patience = StoreBackoff("claim", counters, FakeClock().rng)
    waits = [patience.failed(OSError("away")) for _ in range(12)]
    assert 0.05 <= waits[0] <= 0.1
    for number, wait in enumerate(waits):
        longest = min(0.05 * 2 ** (number + 1), 5.0)
        assert longest / 2 <= wait <= longest
    patience.failures = 0
    assert patience.failed(OSError("away")) <= 0.1
    assert counters.get("store.unavailable", during="claim") == 13
    for _ in range(2_000):
        assert patience.failed(OSError("away")) <= 5.0

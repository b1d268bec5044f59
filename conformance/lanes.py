"""Lanes, pairs of a queue and a type: bounded in number, removed when long unused, made again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from conformance.harness import LIVE, TERMINAL, Harness, Run, job
from fencepost.clock import SystemClock
from fencepost.core import bounds
from fencepost.core.bounds import LANE_IDLE
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.errors import TooManyLanesError
from fencepost.store.interface.queue import Enqueued
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestLanes"]

SHORT: dict[State, float] = dict.fromkeys(TERMINAL, 60.0)
PASSES = 6
"""As many as any store needs to see that a lane is unused, and to remove it."""
PATIENCE = 60
FEW = 5


def prune(h: Harness) -> None:
    """Do what a leader does every minute."""
    if h.store.tidy_interval is not None:
        h.run(h.store.upkeep.tidy())
    h.run(h.store.upkeep.prune(PruneRequest(keep=SHORT, limit=1000)))


def let_unused_lanes_go(h: Harness, left: list[str]) -> None:
    """Prune until only these types are left.

    PostgreSQL keeps a lane as long as a transaction is open that is older than its removal, be it
    in another database of the same server: that one is waited for.
    """
    for _ in range(PASSES):
        h.advance(LANE_IDLE)
        prune(h)
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE
    while types(h) != left and clock.monotonic() < deadline:
        clock.sleep(0.1)
        prune(h)
    assert types(h) == left


def types(h: Harness) -> list[str]:
    return [view.name for view in h.run(h.store.overview.types())]


def finish(h: Harness, *names: str) -> None:
    claimed = h.claim(100, types=frozenset(names)).jobs
    h.succeed_all(claimed)


class TestLanes:
    @pytest.fixture
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let an app have five pairs of queue and type."""
        monkeypatch.setattr(bounds, "LANES_MAX", FEW)

    @pytest.mark.parametrize("is_atomic", [False, True])
    @pytest.mark.parametrize("what", ["type", "queue"])
    @pytest.mark.usefixtures("few")
    def test_there_are_so_many_and_no_more(self, h: Harness, what: str, is_atomic: bool) -> None:
        """A batch with one pair too many is refused whole; pairs that there are go on."""

        def new(number: int) -> Any:
            return job("a", queue=f"q{number}") if what == "queue" else job(f"t{number}")

        h.enqueue(*[new(number) for number in range(FEW)])
        before = h.snapshot()
        with pytest.raises(TooManyLanesError) as caught:
            h.enqueue(new(0), new(FEW), atomic=is_atomic)
        assert caught.value.code == "too_many_lanes"
        assert caught.value.limit == FEW
        assert h.snapshot() == before
        replies = h.enqueue(*[new(number) for number in range(FEW)], atomic=is_atomic)
        assert all(isinstance(reply, Enqueued) for reply in replies)
        assert len(h.claim(100).jobs) == 2 * FEW

    @pytest.mark.usefixtures("few")
    def test_a_refused_batch_takes_up_no_room(self, h: Harness) -> None:
        """None of its pairs is left behind."""
        h.enqueue(*[job(f"t{number}") for number in range(FEW - 2)])
        with pytest.raises(TooManyLanesError):
            h.enqueue(*[job(f"new{number}") for number in range(3)])
        h.enqueue(*[job(f"other{number}") for number in range(2)])
        assert len(types(h)) == FEW

    @pytest.mark.usefixtures("few")
    def test_a_priority_makes_no_other_pair(self, h: Harness) -> None:
        h.enqueue(*[job(f"t{number}") for number in range(FEW)])
        for priority in Priority:
            h.submit("t0", priority=priority)
        assert len(h.claim(100).jobs) == FEW + len(Priority)

    @pytest.mark.usefixtures("few")
    def test_a_store_that_knows_no_lanes_may_use_those_there_are(self, h: Harness) -> None:
        """The bound is on what is new, not on who asks."""
        h.enqueue(*[job(f"t{number}") for number in range(FEW)])
        [_, other] = h.peers(2)
        [reply] = other.run(other.queue.enqueue([job("t1")]))
        assert isinstance(reply, Enqueued)
        with pytest.raises(TooManyLanesError):
            other.run(other.queue.enqueue([job("new")]))

    @pytest.mark.usefixtures("few")
    def test_unused_ones_make_room(self, h: Harness) -> None:
        """When all jobs of a pair are pruned, it is removed some time later."""
        h.enqueue(*[job(f"t{number}") for number in range(FEW)])
        finish(h, "t0", "t1")
        prune(h)
        with pytest.raises(TooManyLanesError):
            h.submit("new")
        let_unused_lanes_go(h, left=["t2", "t3", "t4"])
        h.enqueue(job("new"), job("newer"))
        assert types(h) == ["new", "newer", "t2", "t3", "t4"]

    def test_a_lane_that_was_used_of_late_is_kept(self, h: Harness) -> None:
        h.submit("a")
        finish(h, "a")
        h.advance(61)
        prune(h)
        h.advance(LANE_IDLE / 2)
        prune(h)
        prune(h)
        assert types(h) == ["a"]

    @pytest.mark.parametrize("state", [*LIVE, *TERMINAL], ids=str)
    def test_a_lane_with_a_job_in_any_state_is_kept(self, h: Harness, state: State) -> None:
        job_id = h.job_in(state, type="a")
        for _ in range(PASSES):
            h.advance(LANE_IDLE)
            if h.store.tidy_interval is not None:
                h.run(h.store.upkeep.tidy())
            h.run(h.store.upkeep.prune(PruneRequest(keep=dict.fromkeys(TERMINAL, 1e6), limit=100)))
        assert h.get(job_id).type == "a"
        assert types(h) == ["a"]

    def test_a_removed_lane_that_others_remember_is_made_again(self, h: Harness) -> None:
        """S0-1: no job is stored where nobody finds it."""
        [_, other] = h.peers(2)
        other.run(other.queue.enqueue([job("a"), job("b", tags={"x": "y"})]))
        finish(h, "a", "b")
        let_unused_lanes_go(h, left=[])
        for name in ("a", "b"):
            [reply] = other.run(
                other.queue.enqueue([job(name, tags={"x": "y"} if name == "b" else {})])
            )
            assert isinstance(reply, Enqueued)
            claimed = h.take(types=frozenset({name}))
            assert (claimed.id, claimed.type) == (reply.job_id, name)
            assert h.find(type=name)[0].id == reply.job_id
        counts = {view.name: view.counts for view in h.run(h.store.overview.types())}
        assert counts == {"a": {State.RUNNING: 1}, "b": {State.RUNNING: 1}}

    @pytest.mark.parametrize("queues", [None, {"default": 1}])
    def test_a_lane_that_is_made_after_a_claim_is_found(
        self, h: Harness, queues: dict[str, int] | None
    ) -> None:
        """S0-1: a worker that has asked before, and found nothing, gets the jobs of others."""
        [_, other] = h.peers(2)
        for priority in (Priority.NORMAL, Priority.CRITICAL):
            assert h.claim(queues=queues).jobs == []
            [reply] = other.run(other.queue.enqueue([job("a", priority=priority)]))
            assert h.take(queues=queues).id == reply.job_id

    @pytest.mark.parametrize("queues", [None, {"default": 1}])
    def test_who_claims_any_type_may_leave_out_fenceposts_own(
        self, h: Harness, queues: dict[str, int] | None
    ) -> None:
        """Nobody has to name all types that there are for it."""
        mine, _ = h.submit_all(job("mail"), job("fencepost.webhook"))
        claimed = h.claim(queues=queues, own_types=False).jobs
        assert [each.id for each in claimed] == [mine]
        assert len(h.claim(queues=queues).jobs) == 1

    def test_a_lane_between_two_looks_is_used_again(self, h: Harness) -> None:
        """S0-1: however far its removal has come, a job that is stored in it is claimed."""
        for passes in range(PASSES):
            name = f"t{passes}"
            h.submit(name)
            finish(h, name)
            h.advance(61)
            prune(h)
            for _ in range(passes):
                h.advance(LANE_IDLE)
                prune(h)
            job_id = h.submit(name)
            for _ in range(PASSES):
                h.advance(LANE_IDLE / 2)
                prune(h)
            assert h.take(types=frozenset({name})).id == job_id

    def test_jobs_that_come_while_lanes_are_removed_are_claimed(self, h: Harness) -> None:
        """S0-1: submissions and removals at the same moment, by several processes."""
        stores = h.peers(4)
        names = [f"t{number}" for number in range(4)]
        for _ in range(3):
            h.enqueue(*map(job, names))
            finish(h, *names)
            h.advance(61)
            prune(h)
            h.advance(LANE_IDLE)
            prune(h)
            h.advance(LANE_IDLE)
            replies = h.race_scripts([_submit(name) for name in names] + [_prune] * 4, stores)
            stored = {job_id for some in replies for job_id in some}
            prune(h)
            claimed = h.claim(100, types=frozenset(names)).jobs
            assert {each.id for each in claimed} == stored
            h.succeed_all(claimed)


def _submit(name: str) -> Callable[[Store, Run], Coroutine[Any, Any, Sequence[str]]]:
    async def script(store: Store, run: Run) -> Sequence[str]:
        replies = [await run(store.queue.enqueue([job(name)])) for _ in range(5)]
        return [reply.job_id for [reply] in replies]

    return script


async def _prune(store: Store, run: Run) -> Sequence[str]:
    for _ in range(5):
        if store.tidy_interval is not None:
            await run(store.upkeep.tidy())
        await run(store.upkeep.prune(PruneRequest(keep=SHORT, limit=1000)))
    return []

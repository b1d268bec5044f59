"""Concurrency keys: how many jobs of one run at once, whose turn it is, and nobody forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.graphs import after, any_of, claim_of, ended
from conformance.harness import ONE_ATTEMPT, TTL, Harness, ids, job
from fencepost.core.job.history import history
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Priority
from fencepost.core.job.why import explain
from fencepost.store.interface.control import Edit, Replayed
from fencepost.store.interface.queue import (
    Claim,
    Duplicate,
    Enqueued,
    Moved,
    Settled,
    Spawn,
    Spawned,
)
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestConcurrencyKeys", "TestKeyTurns", "TestKeysAndDependencies"]

TENANT = "tenant:7"


def keyed(type: str = "mail", *, key: str = TENANT, limit: int | None = 1, **fields: Any) -> NewJob:
    """Return a job with a concurrency key."""
    policy = replace(fields.pop("policy", DEFAULT_POLICY), max_running_per_key=limit)
    return job(type, concurrency_key=key, policy=policy, **fields)


def states(h: Harness, job_ids: list[str]) -> list[State]:
    return [h.state(job_id) for job_id in job_ids]


def entered(job_id: str, type: str = "mail") -> Moved:
    """Return the reply about a job that got a slot."""
    return Moved(job_id, type, State.SCHEDULED, State.PENDING)


class TestConcurrencyKeys:
    """At most so many jobs of one type and key are claimable or running."""

    def test_as_many_jobs_of_a_key_are_claimable_as_may_run(self, h: Harness) -> None:
        replies = h.enqueue(*[keyed(limit=2)] * 5)
        assert [reply.state for reply in replies] == [State.SCHEDULED] * 2 + [State.PENDING] * 3
        job_ids = [reply.job_id for reply in replies]
        assert ids(h.claim().jobs) == job_ids[:2]
        assert h.claim().jobs == []

    def test_without_a_limit_of_its_own_a_key_has_one_slot(self, h: Harness) -> None:
        first, second = h.submit_all(*[keyed(limit=None)] * 2)
        assert states(h, [first, second]) == [State.SCHEDULED, State.PENDING]

    def test_a_job_that_is_held_up_looks_like_one(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(), keyed())
        held = h.get(second)
        assert held.state is State.PENDING
        assert held.concurrency_key == h.get(first).concurrency_key == TENANT
        assert held.policy.max_running_per_key == 1
        assert (held.scheduled_at, held.waits, held.attempt) == (None, None, 0)
        assert held.run_at == held.updated_at == h.now
        assert ids(h.find(states=(State.PENDING,))) == [second]
        [view] = h.run(h.store.overview.queues())
        assert view.counts == {State.PENDING: 1, State.SCHEDULED: 1}

    def test_the_next_takes_the_slot_as_its_holder_ends(self, h: Harness) -> None:
        first, second, third = h.submit_all(keyed(), keyed(), keyed())
        claimed = h.take()
        h.advance(7)
        reply = h.succeed(claimed)
        assert reply == Settled(first, "mail", State.COMPLETED, (entered(second),))
        seen = h.get(second)
        assert seen.scheduled_at == seen.run_at == seen.updated_at == h.now
        assert h.state(third) is State.PENDING
        [view] = h.run(h.store.overview.types())
        assert view.counts == {State.PENDING: 1, State.SCHEDULED: 1, State.COMPLETED: 1}
        assert ids(h.claim().jobs) == [second]

    def test_other_keys_other_types_and_jobs_without_a_key_are_not_held_up(
        self, h: Harness
    ) -> None:
        h.enqueue(keyed(), keyed())
        replies = h.enqueue(keyed(key="tenant:8"), keyed("report"), job(), job("report"))
        assert {reply.state for reply in replies} == {State.SCHEDULED}

    def test_queues_share_the_slots_of_a_key(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(queue="a"), keyed(queue="b"))
        assert states(h, [first, second]) == [State.SCHEDULED, State.PENDING]
        h.succeed(h.take())
        assert h.take(queues={"b": 1}).id == second

    def test_jobs_of_one_key_with_several_limits_obey_each_its_own(self, h: Harness) -> None:
        """As in a deployment that changes the limit; who is first is not overtaken."""
        h.submit_all(keyed(limit=2), keyed(limit=2))
        narrow, wide = h.submit_all(keyed(limit=1), keyed(limit=3))
        first, second = h.claim().jobs
        h.succeed(first)
        assert states(h, [narrow, wide]) == [State.PENDING, State.PENDING]
        h.succeed(second)
        assert states(h, [narrow, wide]) == [State.SCHEDULED, State.SCHEDULED]

    def test_a_released_job_keeps_its_slot_and_its_place(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(), keyed())
        h.advance(1)
        assert h.release(h.take()) == Settled(first, "mail", State.SCHEDULED)
        assert h.state(second) is State.PENDING
        assert h.take().id == first

    def test_a_job_that_falls_due_waits_for_a_slot(self, h: Harness) -> None:
        later = h.submit_all(keyed(delay=5.0))[0]
        h.submit_all(keyed())
        running = h.take()
        h.advance(6)
        assert h.run(h.store.upkeep.promote(10)) == [
            Moved(later, "mail", State.PENDING, State.DELAYED)
        ]
        assert h.get(later).scheduled_at is None
        assert h.run(h.store.upkeep.promote(10)) == []
        assert h.claim().wait == TTL - 6
        reply = h.succeed(running)
        assert isinstance(reply, Settled)
        assert reply.followed == (entered(later),)

    def test_a_job_that_falls_due_takes_a_free_slot_at_once(self, h: Harness) -> None:
        later = h.submit_all(keyed(delay=5.0))[0]
        h.advance(6)
        assert h.run(h.store.upkeep.promote(10)) == [
            Moved(later, "mail", State.SCHEDULED, State.DELAYED)
        ]
        seen = h.get(later)
        assert seen.scheduled_at == seen.run_at == h.now

    def test_a_claim_lets_in_what_has_fallen_due(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(delay=5.0), keyed(delay=5.0))
        h.advance(5)
        claim = h.claim()
        assert (ids(claim.jobs), claim.promoted, claim.held) == ([first], 2, 1)
        assert h.state(second) is State.PENDING

    def test_a_job_that_is_tried_again_has_given_its_slot_away(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(), keyed())
        reply = h.fail(h.take(), retry_after=3.0)
        assert reply == Settled(first, "mail", State.RETRYING, (entered(second),))
        running = h.take()
        assert running.id == second
        h.advance(3)
        assert h.claim().jobs == []
        assert h.state(first) is State.PENDING
        changes = history(h.get(first), h.attempts(first))
        assert changes[-1].state is State.PENDING
        h.succeed(running)
        assert h.take().id == first

    def test_a_job_reopened_by_hand_waits_for_a_slot(self, h: Harness) -> None:
        dead, _ = h.submit_all(keyed(), keyed())
        h.reject(h.take())
        assert h.retry(dead) == Moved(dead, "mail", State.PENDING, State.FAILED)
        assert h.get(dead).completed_at is None
        h.succeed(h.take())
        assert h.take().id == dead

    def test_a_job_reopened_while_a_slot_is_free_is_claimable(self, h: Harness) -> None:
        [dead] = h.submit_all(keyed())
        h.reject(h.take())
        assert h.retry(dead) == Moved(dead, "mail", State.SCHEDULED, State.FAILED)
        assert h.take().id == dead

    def test_a_dead_letter_that_is_replayed_waits_for_a_slot(self, h: Harness) -> None:
        dead, _ = h.submit_all(keyed(), keyed())
        h.reject(h.take())
        reply = h.replay(dead)
        assert isinstance(reply, Replayed)
        assert reply.state is h.state(reply.job_id) is State.PENDING
        assert h.get(reply.job_id).concurrency_key == TENANT
        h.succeed(h.take())
        assert h.take().id == reply.job_id

    def test_jobs_that_a_handler_spawns_wait_for_a_slot(self, h: Harness) -> None:
        h.submit("parent")
        parent = h.take()
        children = tuple(replace(keyed(), key=Key(f"spawn:{n}")) for n in (1, 2))
        [reply] = h.run(h.store.queue.spawn([Spawn(parent.id, parent.lease.token, children)]))
        assert isinstance(reply, Spawned)
        assert [each.state for each in reply.replies] == [State.SCHEDULED, State.PENDING]
        h.succeed(h.take())
        assert h.take().id == reply.replies[1].job_id

    def test_a_job_that_is_held_up_holds_its_idempotency_key(self, h: Harness) -> None:
        _, held = h.submit_all(keyed(), replace(keyed(), key=Key("welcome:42")))
        [reply] = h.enqueue(replace(keyed(), key=Key("welcome:42")))
        assert isinstance(reply, Duplicate)
        assert (reply.job_id, reply.state) == (held, State.PENDING)

    def test_a_refused_submission_takes_no_slot(self, h: Harness) -> None:
        h.submit_all(replace(keyed("report"), key=Key("k")))
        [reply] = h.enqueue(replace(keyed("report"), key=Key("k")))
        assert isinstance(reply, Duplicate)
        h.succeed(h.take())
        assert [each.state for each in h.enqueue(keyed("report"))] == [State.SCHEDULED]

    def test_a_pause_gives_no_slot_away(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(), keyed())
        h.run(h.store.settings.pause(Scope.TYPE, "mail"))
        assert h.claim().jobs == []
        assert states(h, [first, second]) == [State.SCHEDULED, State.PENDING]
        h.run(h.store.settings.resume(Scope.TYPE, "mail"))
        assert h.take().id == first

    def test_it_says_why(self, h: Harness) -> None:
        _, second = h.submit_all(keyed(), keyed())
        situation = h.run(h.store.reader.situation(second))
        assert situation is not None
        assert situation.key_active == 1
        [reason] = explain(situation)
        assert reason.code == "pending_key"
        assert "'tenant:7' of type 'mail' has 1 of at most 1 active jobs" in reason.text

    def test_a_key_whose_jobs_were_pruned_is_as_new(self, h: Harness) -> None:
        h.submit_all(keyed(), keyed())
        h.succeed(h.take())
        h.succeed(h.take())
        h.advance(10)
        keep = {State.COMPLETED: 5.0}
        assert h.run(h.store.upkeep.prune(PruneRequest(keep=keep, limit=10))).count == 2
        first, second = h.submit_all(keyed(), keyed())
        assert states(h, [first, second]) == [State.SCHEDULED, State.PENDING]
        h.succeed(h.take())
        assert h.take().id == second

    def test_pruning_leaves_the_slots_of_live_jobs_alone(self, h: Harness) -> None:
        h.submit_all(keyed(), keyed(), keyed())
        h.succeed(h.take())
        running = h.take()
        h.advance(10)
        h.run(h.store.upkeep.prune(PruneRequest(keep={State.COMPLETED: 5.0}, limit=10)))
        assert h.claim().jobs == []
        h.succeed(running)
        assert len(h.claim().jobs) == 1

    def test_slots_and_who_waits_for_them_outlive_the_process(self, h: Harness) -> None:
        if not h.is_durable:
            pytest.skip("nothing outlives a memory store")
        first, second = h.submit_all(keyed(), keyed())
        lost = h.take()
        h.reopen(is_clean=False)
        assert h.claim().jobs == []
        h.advance(TTL)
        claim = h.claim()
        assert [moved.job_id for moved in claim.recovered] == [lost.id] == [first]
        assert ids(claim.jobs) == [second]


def _succeed(h: Harness) -> object:
    return h.succeed(h.take())


def _reject(h: Harness) -> object:
    return h.reject(h.take())


def _exhaust(h: Harness) -> object:
    return h.fail(h.take())


def _snooze(h: Harness) -> object:
    return h.snooze(h.take(), 3600.0)


def _cancel_running(h: Harness) -> object:
    return h.cancel(h.take().id)


def _cancel_in_line(h: Harness) -> object:
    [first] = h.find(states=(State.SCHEDULED,))
    return h.cancel(first.id)


def _expire_running(h: Harness) -> object:
    h.take(lease_ttl=500.0)
    h.advance(100)
    [moved] = h.run(h.store.upkeep.expire(1))
    return moved


def _expire_in_line(h: Harness) -> object:
    h.advance(100)
    [moved] = h.run(h.store.upkeep.expire(1))
    return moved


def _recover(h: Harness) -> object:
    h.take()
    h.advance(TTL)
    [moved] = h.run(h.store.upkeep.recover(1))
    return moved


def _batch(h: Harness) -> object:
    [reply] = h.succeed_all([h.take()])
    return reply


WAYS_OUT: tuple[Callable[[Harness], object], ...] = (
    _succeed,
    _reject,
    _exhaust,
    _snooze,
    _cancel_running,
    _cancel_in_line,
    _expire_running,
    _expire_in_line,
    _recover,
    _batch,
)


class TestKeyTurns:
    """Whose turn it is, between keys and within one; and that every turn comes."""

    @pytest.mark.parametrize("leave", WAYS_OUT, ids=lambda way: way.__name__.strip("_"))
    @pytest.mark.parametrize("attempts", [1, 3])
    def test_every_way_out_gives_the_slot_to_the_next(
        self, h: Harness, leave: Callable[[Harness], object], attempts: int
    ) -> None:
        policy = replace(ONE_ATTEMPT, max_attempts=attempts)
        [first] = h.submit_all(keyed(policy=replace(policy, lifetime=100.0)))
        second, third = h.submit_all(keyed(), keyed())
        reply = leave(h)
        assert isinstance(reply, (Settled, Moved))
        assert reply.followed == (entered(second),)
        assert h.state(first) not in (State.SCHEDULED, State.RUNNING)
        assert states(h, [second, third]) == [State.SCHEDULED, State.PENDING]
        h.succeed(h.take())
        assert h.take().id == third

    def test_a_batch_that_ends_frees_as_many_slots(self, h: Harness) -> None:
        job_ids = h.submit_all(*[keyed(limit=3)] * 9)
        batch = h.claim(3).jobs
        replies = h.succeed_all(batch)
        followed = [
            moved for each in replies if isinstance(each, Settled) for moved in each.followed
        ]
        assert followed == [entered(job_id) for job_id in job_ids[3:6]]
        assert ids(h.claim().jobs) == job_ids[3:6]

    def test_a_batch_that_ends_lets_each_in_by_its_own_limit(self, h: Harness) -> None:
        """Slots that are filled together count one after the other, as if filled one by one."""
        h.submit_all(*[keyed(limit=3)] * 3)
        wide, second, third = h.submit_all(keyed(limit=3), keyed(limit=2), keyed(limit=2))
        h.succeed_all(h.claim(3).jobs)
        assert states(h, [wide, second, third]) == [State.SCHEDULED] * 2 + [State.PENDING]

    def test_a_batch_of_many_keys_frees_the_slots_of_each(self, h: Harness) -> None:
        h.submit_all(*[keyed(key=f"k{n}") for n in range(5)] * 2)
        batch = h.claim().jobs
        assert len(batch) == 5
        h.succeed_all(batch)
        assert len(h.claim().jobs) == 5

    def test_jobs_cancelled_together_leave_nobody_behind(self, h: Harness) -> None:
        first, second, third, fourth = h.submit_all(*[keyed()] * 4)
        replies = h.run(h.store.control.cancel([second, first, third]))
        assert all(isinstance(reply, Moved) for reply in replies)
        assert h.take().id == fourth

    def test_a_job_that_is_held_up_can_be_cancelled(self, h: Harness) -> None:
        first, second, third = h.submit_all(*[keyed()] * 3)
        assert h.cancel(second) == Moved(second, "mail", State.CANCELLED, State.PENDING)
        assert h.state(third) is State.PENDING
        h.succeed(h.take())
        assert h.take().id == third
        assert h.state(first) is State.COMPLETED

    def test_a_job_that_allows_fewer_holds_up_others_only_while_it_waits(self, h: Harness) -> None:
        h.submit_all(keyed(limit=2))
        for leave in (self._cancel, self._outlive):
            policy = replace(ONE_ATTEMPT, lifetime=50.0)
            narrow, wide = h.submit_all(keyed(limit=1, policy=policy), keyed(limit=2))
            assert states(h, [narrow, wide]) == [State.PENDING, State.PENDING]
            leave(h, narrow)
            assert h.state(wide) is State.SCHEDULED, leave
            h.run(h.store.control.cancel([narrow, wide]))

    @staticmethod
    def _cancel(h: Harness, job_id: str) -> None:
        h.cancel(job_id)

    @staticmethod
    def _outlive(h: Harness, job_id: str) -> None:
        h.advance(50)
        [moved] = h.run(h.store.upkeep.expire(10))
        assert moved.job_id == job_id

    def test_a_job_that_is_held_up_outlives_its_lifetime_like_any(self, h: Harness) -> None:
        h.submit_all(keyed())
        [held] = h.submit_all(keyed(policy=replace(ONE_ATTEMPT, lifetime=50.0)))
        h.advance(50)
        [moved] = h.run(h.store.upkeep.expire(10))
        assert moved == Moved(held, "mail", State.DEAD_LETTER, State.PENDING)
        assert h.claim(10).jobs != []

    def test_within_a_key_the_order_is_that_of_any_line(self, h: Harness) -> None:
        """Priority, then due time, then submission."""
        h.submit_all(keyed())
        late, early = h.submit_all(keyed(delay=9.0), keyed(delay=5.0))
        h.advance(10)
        h.run(h.store.upkeep.promote(10))
        plain, low, high = h.submit_all(
            keyed(), keyed(priority=Priority.LOW), keyed(priority=Priority.HIGH)
        )
        h.succeed(h.take())
        turns = []
        for _ in range(5):
            turns.append(h.take())
            h.succeed(turns[-1])
        assert ids(turns) == [high, early, late, plain, low]

    def test_of_jobs_submitted_together_the_most_urgent_is_let_in(self, h: Harness) -> None:
        plain, high = h.submit_all(keyed(), keyed(priority=Priority.HIGH))
        assert states(h, [plain, high]) == [State.PENDING, State.SCHEDULED]

    def test_an_edited_priority_changes_whose_turn_it_is(self, h: Harness) -> None:
        h.submit_all(keyed())
        first, second = h.submit_all(keyed(), keyed())
        h.run(h.store.control.edit([Edit(second, priority=Priority.HIGH)]))
        assert states(h, [first, second]) == [State.PENDING, State.PENDING]
        h.succeed(h.take())
        assert h.take().id == second

    def test_an_edited_job_keeps_its_slot(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(), keyed())
        h.run(h.store.control.edit([Edit(first, priority=Priority.LOW)]))
        assert states(h, [first, second]) == [State.SCHEDULED, State.PENDING]
        h.succeed(h.take())
        assert h.take().id == second

    def test_many_jobs_of_one_key_do_not_delay_the_one_of_another(self, h: Harness) -> None:
        h.enqueue(*[keyed(key="A", limit=2)] * 1_000)
        [single] = h.submit_all(keyed(key="B", limit=2))
        order = []
        while single not in order:
            h.advance(1)
            order.append((claimed := h.take()).id)
            h.succeed(claimed)
        assert len(order) <= 3

    def test_keys_take_turns(self, h: Harness) -> None:
        h.submit_all(*[keyed(key=key) for key in "AAABBBCCC"])
        turns = []
        for _ in range(9):
            h.advance(1)
            claimed = h.take()
            turns.append(h.get(claimed.id).concurrency_key)
            h.succeed(claimed)
        assert turns == list("ABCABCABC")


class TestKeysAndDependencies:
    """A job that waits for others and has a key waits for those first."""

    def test_it_takes_part_once_it_is_let_go(self, h: Harness) -> None:
        parent = h.submit("parent")
        [child] = h.submit_all(keyed("c", after=after(parent)))
        [other] = h.submit_all(keyed("c"))
        assert states(h, [child, other]) == [State.PENDING, State.SCHEDULED]
        reply = h.succeed(claim_of(h, "parent"))
        assert reply == Settled(parent, "parent", State.COMPLETED)
        seen = h.get(child)
        assert (seen.state, seen.waits and seen.waits.missing) == (State.PENDING, 0)
        situation = h.run(h.store.reader.situation(child))
        assert situation is not None
        assert [reason.code for reason in explain(situation)] == ["pending_key"]
        h.succeed(claim_of(h, "c"))
        assert claim_of(h, "c").id == child

    def test_it_takes_a_free_slot_as_it_is_let_go(self, h: Harness) -> None:
        parent = h.submit("parent")
        [child] = h.submit_all(keyed("c", after=after(parent)))
        reply = h.succeed(claim_of(h, "parent"))
        assert reply == Settled(parent, "parent", State.COMPLETED, (entered(child, "c"),))
        assert claim_of(h, "c").has_dependencies

    def test_a_chain_of_one_key_runs_to_its_end(self, h: Harness) -> None:
        replies = h.enqueue(keyed(), keyed(after=after(0)), keyed(after=after(1)))
        job_ids = [reply.job_id for reply in replies]
        for job_id in job_ids:
            claimed = h.take()
            assert claimed.id == job_id
            h.succeed(claimed)
        assert set(states(h, job_ids)) == {State.COMPLETED}

    def test_one_that_is_held_up_was_let_go_for_good(self, h: Harness) -> None:
        """What else it would have waited for changes nothing any more."""
        a, b = h.submit("a"), h.submit("b")
        h.submit_all(keyed("c"))
        [child] = h.submit_all(keyed("c", after=any_of(a, b)))
        h.succeed(claim_of(h, "a"))
        assert h.reject(claim_of(h, "b")) == Settled(b, "b", State.FAILED)
        assert h.state(child) is State.PENDING
        h.succeed(claim_of(h, "c"))
        assert claim_of(h, "c").id == child

    def test_one_that_is_held_up_does_not_wait_again_for_a_reopened_job(self, h: Harness) -> None:
        a = h.submit("a")
        h.submit_all(keyed("c"))
        [child] = h.submit_all(keyed("c", after=ended(a)))
        h.reject(claim_of(h, "a"))
        h.retry(a)
        h.succeed(claim_of(h, "c"))
        assert claim_of(h, "c").id == child

    def test_it_ends_with_what_it_waited_for_and_takes_no_slot(self, h: Harness) -> None:
        parent = h.submit("parent")
        [child] = h.submit_all(keyed("c", after=after(parent)))
        h.reject(claim_of(h, "parent"))
        assert h.state(child) is State.FAILED
        [reply] = h.enqueue(keyed("c"))
        assert isinstance(reply, Enqueued)
        assert reply.state is State.SCHEDULED

    def test_others_can_wait_for_one_that_is_held_up(self, h: Harness) -> None:
        _, held = h.submit_all(keyed(), keyed())
        child = h.submit("c", after=after(held))
        h.succeed(h.take())
        h.succeed(h.take())
        assert claim_of(h, "c").id == child

    def test_its_own_time_comes_before_its_key(self, h: Harness) -> None:
        parent = h.submit("parent")
        [child] = h.submit_all(keyed("c", after=after(parent), delay=60.0))
        h.succeed(claim_of(h, "parent"))
        assert h.state(child) is State.DELAYED
        h.submit_all(keyed("c"))
        h.advance(60)
        claim: Claim = h.claim(types=frozenset({"c"}))
        assert child not in ids(claim.jobs)
        h.succeed(claim.jobs[0])
        assert claim_of(h, "c").id == child

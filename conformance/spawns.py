"""New jobs that a running one brings forth: under its lease, and gathered by who waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.graphs import after, bring, claim_of, failed_dependency, missing
from conformance.harness import NOBODY, TTL, Harness, ids, job
from fencepost.core.bounds import DEPENDENCY_COUNT_MAX
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.errors import DependencyBreadthError, DependencyDepthError, UnknownDependencyError
from fencepost.store.interface.queue import Duplicate, Enqueued, LeaseLost, Moved, Spawn, Spawned
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

__all__ = ["TestSpawning", "TestSpawningIntoOtherQueues"]


def spawn(h: Harness, claimed: ClaimedJob, *jobs: NewJob) -> Any:
    [reply] = h.run(h.store.queue.spawn([Spawn(claimed.id, claimed.lease.token, jobs)]))
    return reply


def gathering(*on: str | int) -> Dependencies:
    return after(*on, gathers=True)


def child(number: int, type: str = "child", **fields: Any) -> NewJob:
    """Return the job that is always spawned under the same key."""
    return job(type, key=Key(f"spawn:{number}"), **fields)


class TestSpawning:
    """FAN_OUT at run time, and the FAN_IN that waits for it (S1-63, S1-64, C29)."""

    def test_a_running_job_spawns_others(self, h: Harness) -> None:
        """S1-63: one job spawns several parallel jobs."""
        h.submit("parent", flow="f1")
        parent = h.take()
        reply = spawn(h, parent, child(1), child(2, delay=5.0))
        assert isinstance(reply, Spawned)
        assert reply.job_id == parent.id
        assert [each.state for each in reply.replies] == [State.SCHEDULED, State.DELAYED]
        first, second = (h.get(each.job_id) for each in reply.replies)
        assert first.flow == second.flow == "f1"
        assert ids(h.claim().jobs) == [first.id]

    def test_a_stale_lease_spawns_nothing(self, h: Harness) -> None:
        h.submit("parent")
        stale = h.take()
        h.advance(TTL)
        before = h.snapshot()
        assert spawn(h, stale, child(1)) == LeaseLost(stale.id, State.RUNNING)
        assert h.snapshot() == before
        [unknown] = h.run(h.store.queue.spawn([Spawn(NOBODY, stale.lease.token, (child(1),))]))
        assert unknown == LeaseLost(NOBODY)
        assert h.snapshot() == before

    def test_what_gathers_waits_for_all_that_was_spawned(self, h: Harness) -> None:
        """S1-64, C29: a FAN_IN waits for children spawned until the parent completes."""
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        plain = h.submit("plain", after=after(first))
        parent = claim_of(h, "parent")
        one = spawn(h, parent, child(1)).replies[0].job_id
        two = spawn(h, parent, child(2)).replies[0].job_id
        assert missing(h, last) == 3
        h.succeed(parent)
        assert h.state(last) is State.PENDING
        assert h.state(plain) is State.SCHEDULED
        for _ in range(2):
            assert h.state(last) is State.PENDING
            h.succeed(claim_of(h, "child"))
        assert h.state(last) is State.SCHEDULED
        [dependencies] = h.run(h.store.reader.dependencies([last]))
        assert [each.job_id for each in dependencies] == [first, one, two]

    def test_children_of_children_are_gathered_too(self, h: Harness) -> None:
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        parent = claim_of(h, "parent")
        spawn(h, parent, child(1))
        h.succeed(parent)
        middle = claim_of(h, "child")
        spawn(h, middle, child(2, "grandchild"))
        h.succeed(middle)
        assert h.state(last) is State.PENDING
        h.succeed(claim_of(h, "grandchild"))
        assert h.state(last) is State.SCHEDULED

    def test_a_spawned_job_that_fails_ends_what_gathers(self, h: Harness) -> None:
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        parent = claim_of(h, "parent")
        [spawned] = ids([h.get(spawn(h, parent, child(1)).replies[0].job_id)])
        bring(h, spawned, State.FAILED)
        assert h.state(last) is State.FAILED
        assert failed_dependency(h, last) == spawned
        assert spawn(h, parent, child(2)).replies[0].state is State.SCHEDULED

    def test_a_later_attempt_finds_what_an_earlier_one_has_spawned(self, h: Harness) -> None:
        """A repeat after a lost reply, or after a crash, makes no second child."""
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        crashed = claim_of(h, "parent")
        spawned = spawn(h, crashed, child(1)).replies[0].job_id
        again = spawn(h, crashed, child(1)).replies
        assert again == (Duplicate(spawned, "child", "spawn:1", State.SCHEDULED, False),)
        assert missing(h, last) == 2
        h.advance(TTL)
        h.claim(0)
        h.advance(TTL)
        retried = claim_of(h, "parent")
        new, old = spawn(h, retried, child(2), child(1)).replies
        assert isinstance(new, Enqueued)
        assert isinstance(old, Duplicate)
        assert old.job_id == spawned
        assert missing(h, last) == 3

    def test_what_has_ended_already_is_not_waited_for(self, h: Harness) -> None:
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        parent = claim_of(h, "parent")
        spawn(h, parent, child(1))
        h.succeed(claim_of(h, "child"))
        assert spawn(h, parent, child(1)).replies[0].state is State.COMPLETED
        assert missing(h, last) == 1
        h.succeed(parent)
        assert h.state(last) is State.SCHEDULED

    def test_what_gathers_becomes_as_urgent_as_what_was_spawned(self, h: Harness) -> None:
        """S1-37: the most urgent priority of its dependencies is inherited."""
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first), priority=Priority.LOW)
        parent = claim_of(h, "parent")
        assert h.get(last).priority is Priority.NORMAL
        spawn(h, parent, child(1, priority=Priority.CRITICAL))
        assert h.get(last).priority is Priority.CRITICAL
        h.succeed(parent)
        h.succeed(claim_of(h, "child"))
        assert claim_of(h, "last").priority is Priority.CRITICAL

    def test_spawned_jobs_can_wait_for_each_other(self, h: Harness) -> None:
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        parent = claim_of(h, "parent")
        replies = spawn(h, parent, child(1), child(2, "second", after=after(0))).replies
        assert [each.state for each in replies] == [State.SCHEDULED, State.PENDING]
        h.succeed(parent)
        h.succeed(claim_of(h, "child"))
        assert h.state(last) is State.PENDING
        h.succeed(claim_of(h, "second"))
        assert h.state(last) is State.SCHEDULED

    def test_what_is_spawned_in_vain_ends_what_gathers(self, h: Harness) -> None:
        """S1-71: also when it was already FAILED: a FAN_IN never passes over a failure."""
        failed = h.submit("failed")
        bring(h, failed, State.FAILED)
        first, last, behind = h.submit_all(
            job("parent"), job("last", after=gathering(0)), job("behind", after=after(1))
        )
        parent = claim_of(h, "parent")
        reply = spawn(h, parent, child(1), child(2, after=after(failed)))
        assert [each.state for each in reply.replies] == [State.SCHEDULED, State.FAILED]
        assert set(reply.followed) == {
            Moved(last, "last", State.FAILED, State.PENDING),
            Moved(behind, "behind", State.FAILED, State.PENDING),
        }
        assert h.state(last) is h.state(behind) is State.FAILED
        assert failed_dependency(h, last) == failed_dependency(h, behind) == failed
        h.succeed(parent)
        assert h.get(first).state is State.COMPLETED

    def test_one_that_accepts_failures_goes_on_waiting_for_the_others(self, h: Harness) -> None:
        """C28: the option to accept failures."""
        failed = h.submit("failed")
        bring(h, failed, State.FAILED)
        h.submit("parent")
        parent = claim_of(h, "parent")
        last = h.submit("last", after=after(parent.id, mode=Mode.ENDED, gathers=True))
        spawn(h, parent, child(1), child(2, after=after(failed)))
        assert missing(h, last) == 2
        h.succeed(parent)
        h.succeed(claim_of(h, "child"))
        assert h.state(last) is State.SCHEDULED

    def test_after_any_gathers_without_waiting_for_more(self, h: Harness) -> None:
        """S1-61, C26: any one of them, however many more there are."""
        h.submit("parent")
        parent = claim_of(h, "parent")
        last = h.submit("last", after=after(parent.id, mode=Mode.ANY, gathers=True))
        assert spawn(h, parent, child(1), child(2)).followed == ()
        assert missing(h, last) == 1
        h.succeed(claim_of(h, "child"))
        assert h.state(last) is State.SCHEDULED

    def test_after_any_is_let_go_by_what_had_ended(self, h: Harness) -> None:
        """C26: any terminal state of any one lets it go."""
        done = h.submit("child", key=Key("spawn:1"))
        bring(h, done, State.COMPLETED)
        h.submit("parent")
        parent = claim_of(h, "parent")
        last = h.submit("last", after=after(parent.id, mode=Mode.ANY, gathers=True))
        reply = spawn(h, parent, child(1))
        assert reply.followed == (Moved(last, "last", State.SCHEDULED, State.PENDING),)
        assert claim_of(h, "last").id == last

    def test_nobody_gathers_what_waits_for_itself(self, h: Harness) -> None:
        """S1-65: no cycle comes about by spawning, on however long a way."""
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        after_last = h.submit("x", after=after(last))
        parent = claim_of(h, "parent")
        replies = spawn(
            h,
            parent,
            child(1),
            child(2, after=after(last)),
            child(3, after=after(after_last)),
            child(4, after=after(0, 2)),
        ).replies
        assert missing(h, last) == 2
        h.succeed(parent)
        h.succeed(claim_of(h, "child"))
        for expected in (last, after_last, *(each.job_id for each in replies[1:])):
            assert h.state(expected) is not State.COMPLETED
        while claimed := h.claim().jobs:
            h.succeed_all(claimed)
        assert {each.state for each in h.find()} == {State.COMPLETED}

    def test_two_that_are_spawned_and_gather_do_not_wait_for_each_other(self, h: Harness) -> None:
        """S1-65: the first to gather waits for the second, which then cannot wait for it."""
        h.submit("parent")
        parent = claim_of(h, "parent")
        gatherers = [child(number, after=gathering(parent.id)) for number in (2, 3)]
        replies = spawn(h, parent, child(1), *gatherers).replies
        _, first, second = [each.job_id for each in replies]
        assert [missing(h, each) for each in (first, second)] == [3, 2]
        h.succeed(parent)
        while claimed := h.claim().jobs:
            h.succeed_all(claimed)
        assert {each.state for each in h.find()} == {State.COMPLETED}

    def test_a_refused_child_leaves_nothing_behind(self, h: Harness) -> None:
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        parent = claim_of(h, "parent")
        before = h.snapshot()
        with pytest.raises(UnknownDependencyError):
            spawn(h, parent, child(1), child(2, after=after(NOBODY)))
        assert h.snapshot() == before
        assert missing(h, last) == 1

    def test_no_more_than_a_thousand_are_gathered(self, h: Harness) -> None:
        """S1-67: the limit holds for what is spawned too."""
        first = h.submit("parent")
        last = h.submit("last", after=gathering(first))
        parent = claim_of(h, "parent")
        spawn(h, parent, *(child(number) for number in range(1, DEPENDENCY_COUNT_MAX)))
        assert missing(h, last) == DEPENDENCY_COUNT_MAX
        before = h.run(h.store.overview.types())
        with pytest.raises(DependencyBreadthError):
            spawn(h, parent, child(DEPENDENCY_COUNT_MAX))
        assert h.run(h.store.overview.types()) == before

    def test_the_longest_way_is_bounded_for_what_is_spawned(self, h: Harness) -> None:
        """S1-66: depth counts over spawned jobs too."""
        first = h.submit("parent")
        h.submit("last", after=gathering(first))
        parent = claim_of(h, "parent")
        chain = [child(0)] + [child(n + 1, after=after(n)) for n in range(99)]
        with pytest.raises(DependencyDepthError):
            spawn(h, parent, *chain)
        spawn(h, parent, *chain[:-1])

    def test_spawning_races_with_other_spawning(self, h: Harness) -> None:
        """Two jobs that are gathered together spawn at once: each child is waited for."""
        for _ in range(5):
            parents = h.submit_many(4, "parent")
            last = h.submit("last", after=gathering(*parents))
            # One by one: jobs of one claim may share a lease, and then wait for each other anyway.
            claimed = [claim_of(h, "parent") for _ in parents]

            def spawning(each: ClaimedJob) -> Any:
                new = (job("child", key=Key(f"of:{each.id}")),)

                def ask(store: Store) -> Operation[Any]:
                    return store.queue.spawn([Spawn(each.id, each.lease.token, new)])

                return ask

            replies = h.race([spawning(each) for each in claimed], h.peers(4))
            assert len(replies) == 4
            assert missing(h, last) == 8
            h.succeed_all(claimed)
            assert missing(h, last) == 4
            h.succeed_all(h.claim(4, types=frozenset({"child"})).jobs)
            h.succeed(claim_of(h, "last"))


class TestSpawningIntoOtherQueues:
    """What is spawned may go to any queue, wherever the store keeps that (S1-63, C29)."""

    def test_what_is_spawned_into_other_queues_is_gathered(self, h: Harness) -> None:
        first = h.submit("parent", queue="a")
        last = h.submit("last", queue="b", after=gathering(first))
        beside = h.submit("beside", queue="a", after=gathering(first))
        parent = claim_of(h, "parent")
        children = [child(1, f"of {queue}", queue=queue) for queue in ("a", "b", "c")]
        replies = spawn(h, parent, *children).replies
        assert [each.state for each in replies] == [State.SCHEDULED] * 3
        assert [h.get(each.job_id).queue for each in replies] == ["a", "b", "c"]
        h.succeed(parent)
        for queue in ("a", "b", "c"):
            assert h.state(last) is h.state(beside) is State.PENDING
            h.succeed(claim_of(h, f"of {queue}"))
        assert h.state(last) is h.state(beside) is State.SCHEDULED

    def test_they_wait_for_each_other_over_queues(self, h: Harness) -> None:
        other = h.submit("other", queue="d")
        h.submit("parent", queue="a", flow="f1")
        parent = claim_of(h, "parent")
        replies = spawn(
            h,
            parent,
            child(1, "one", queue="b"),
            child(2, "two", queue="c", after=after(0)),
            child(3, "three", queue="a", after=after(1, other)),
        ).replies
        one, two, three = (each.job_id for each in replies)
        assert [h.state(each) for each in (one, two, three)] == [
            State.SCHEDULED,
            State.PENDING,
            State.PENDING,
        ]
        assert {h.get(each).flow for each in (one, two, three)} == {"f1"}
        h.succeed(claim_of(h, "one"))
        h.succeed(claim_of(h, "two"))
        assert h.state(three) is State.PENDING
        h.succeed(claim_of(h, "other"))
        assert h.state(three) is State.SCHEDULED

    def test_a_stale_lease_spawns_nothing_into_other_queues(self, h: Harness) -> None:
        h.submit("parent", queue="a")
        stale = h.take()
        h.advance(TTL)
        before = h.snapshot()
        lost = spawn(h, stale, child(1, "one", queue="b"), child(2, "two", queue="a"))
        assert lost == LeaseLost(stale.id, State.RUNNING)
        assert h.snapshot() == before

    def test_a_refused_child_of_another_queue_leaves_nothing_behind(self, h: Harness) -> None:
        first = h.submit("parent", queue="a")
        last = h.submit("last", queue="b", after=gathering(first))
        parent = claim_of(h, "parent")
        before = h.snapshot()
        with pytest.raises(UnknownDependencyError):
            spawn(h, parent, child(1, "one", queue="b"), child(2, "two", after=after(NOBODY)))
        assert h.snapshot() == before
        assert missing(h, last) == 1

    def test_a_later_attempt_finds_them_in_other_queues(self, h: Harness) -> None:
        first = h.submit("parent", queue="a")
        last = h.submit("last", queue="a", after=gathering(first))
        parent = claim_of(h, "parent")
        far = child(1, "one", queue="b")
        spawned = spawn(h, parent, far).replies[0].job_id
        again, new = spawn(h, parent, far, child(2, "two", queue="c", after=after(0))).replies
        assert again == Duplicate(spawned, "one", "spawn:1", State.SCHEDULED, False)
        assert isinstance(new, Enqueued)
        assert missing(h, last) == 3
        h.succeed(parent)
        h.succeed(claim_of(h, "one"))
        h.succeed(claim_of(h, "two"))
        assert h.state(last) is State.SCHEDULED

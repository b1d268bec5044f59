"""Jobs that wait for other jobs: let go, ended with them, and never forgotten."""

from __future__ import annotations

import pytest

from conformance.graphs import (
    ENDINGS,
    REJECTED,
    after,
    any_of,
    bring,
    claim_of,
    ended,
    failed_dependency,
    missing,
)
from conformance.harness import DONE, NOBODY, ONE_ATTEMPT, Harness, ids, job
from fencepost.core.filter import JobFilter
from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.control import Conflict, Edit
from fencepost.store.interface.queue import Duplicate, Enqueued, Moved, Settled
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestDependencies"]


class TestDependencies:
    """AFTER, AFTER_ANY and those between (S1-60 to S1-73)."""

    def test_a_job_waits_for_every_dependency_to_complete(self, h: Harness) -> None:
        """S1-60: AFTER runs only after all dependencies COMPLETED."""
        a, b = h.submit("a"), h.submit("b")
        waiting = h.submit("c", after=after(a, b))
        assert h.state(waiting) is State.PENDING
        assert [each.type for each in h.claim(types=frozenset({"c"})).jobs] == []
        assert bring(h, a, State.COMPLETED).followed == ()
        assert h.state(waiting) is State.PENDING
        reply = bring(h, b, State.COMPLETED)
        assert reply == Settled(
            b,
            "b",
            State.COMPLETED,
            (Moved(waiting, "c", State.SCHEDULED, State.PENDING),),
        )
        assert claim_of(h, "c").id == waiting

    def test_a_pending_job_looks_like_one(self, h: Harness) -> None:
        a = h.submit("a")
        waiting = h.get(h.submit("c", after=after(a), delay=5.0))
        assert waiting.state is State.PENDING
        assert waiting.scheduled_at is None
        assert waiting.attempt == 0
        assert (waiting.run_at - h.now).total_seconds() == 5.0
        assert waiting.waits is not None
        assert (waiting.waits.mode, waiting.waits.missing, waiting.waits.depth) == (Mode.ALL, 1, 2)
        assert h.get(a).waits is None
        assert ids(h.find(states=(State.PENDING,))) == [waiting.id]
        [view] = [view for view in h.run(h.store.overview.types()) if view.name == "c"]
        assert view.counts == {State.PENDING: 1}

    def test_a_job_that_is_let_go_takes_its_place_in_line_then(self, h: Harness) -> None:
        """S1-101: scheduled_at is when it became SCHEDULED; run_at is not before."""
        a = h.submit("a")
        waiting = h.submit("c", after=after(a))
        h.advance(7)
        bring(h, a, State.COMPLETED)
        seen = h.get(waiting)
        assert seen.state is State.SCHEDULED
        assert seen.scheduled_at == seen.run_at == seen.updated_at == h.now
        assert seen.waits is not None
        assert seen.waits.missing == 0
        [view] = [view for view in h.run(h.store.overview.types()) if view.name == "c"]
        assert view.counts == {State.SCHEDULED: 1}

    def test_its_own_time_is_waited_for_too(self, h: Harness) -> None:
        a = h.submit("a")
        waiting = h.submit("c", after=after(a), delay=60.0)
        h.advance(10)
        reply = bring(h, a, State.COMPLETED)
        assert reply.followed == (Moved(waiting, "c", State.DELAYED, State.PENDING),)
        assert h.claim(types=frozenset({"c"})).jobs == []
        assert h.get(waiting).scheduled_at is None
        h.advance(50)
        assert claim_of(h, "c").id == waiting

    def test_what_has_completed_already_is_not_waited_for(self, h: Harness) -> None:
        """S1-70: also when it was already COMPLETED at submission."""
        a = h.submit("a")
        bring(h, a, State.COMPLETED)
        [reply] = h.enqueue(job("c", after=after(a)))
        assert isinstance(reply, Enqueued)
        assert reply.state is State.SCHEDULED
        assert claim_of(h, "c").has_dependencies
        [dependencies] = h.run(h.store.reader.dependencies([reply.job_id], with_results=True))
        assert [(each.job_id, each.state, each.result) for each in dependencies] == [
            (a, State.COMPLETED, DONE)
        ]

    @pytest.mark.parametrize("state", ENDINGS)
    def test_a_dependency_that_ends_otherwise_ends_its_dependents(
        self, h: Harness, state: State
    ) -> None:
        """S1-71, S1-72, S1-73: FAILED, DEAD_LETTER and CANCELLED pass on, and name the job."""
        a = h.submit("a", policy=ONE_ATTEMPT)
        b = h.submit("b", after=after(a))
        c = h.submit("c", after=after(b))
        h.advance(3)
        reply = bring(h, a, state)
        assert reply.state is state
        assert set(reply.followed) == {
            Moved(b, "b", state, State.PENDING),
            Moved(c, "c", state, State.PENDING),
        }
        for dependent in (b, c):
            seen = h.get(dependent)
            assert seen.state is state
            assert seen.completed_at == seen.updated_at == h.now
            assert seen.attempt == 0
            assert seen.failure is not None
            assert seen.failure.code == "dependency_failed"
            assert seen.failure.failed_dependency == a
            assert a in seen.failure.message
            assert h.attempts(dependent) == []
        letters = {letter.job_id for letter in h.letters()}
        assert letters == (set() if state is State.CANCELLED else {a, b, c})

    @pytest.mark.parametrize("state", ENDINGS)
    def test_a_dependency_that_has_ended_so_already_ends_the_job_at_once(
        self, h: Harness, state: State
    ) -> None:
        """S1-71: also when already FAILED at submission."""
        a = h.submit("a", policy=ONE_ATTEMPT)
        bring(h, a, state)
        h.advance(1)
        replies = h.enqueue(job("b", after=after(a)), job("c", after=after(0)))
        assert [reply.state for reply in replies if isinstance(reply, Enqueued)] == [state, state]
        for reply in replies:
            assert isinstance(reply, Enqueued)
            seen = h.get(reply.job_id)
            assert seen.completed_at == h.now
            assert seen.failure is not None
            assert seen.failure.failed_dependency == a
        assert h.run(h.store.reader.count(JobFilter(states=(state,)))) == 3

    def test_after_any_runs_when_one_has_ended_however_it_did(self, h: Harness) -> None:
        """S1-61: AFTER_ANY; C26: any terminal state of any one lets it go."""
        for state in (State.COMPLETED, *ENDINGS):
            a, b = h.submit("a", policy=ONE_ATTEMPT), h.submit("b")
            waiting = h.submit("c", after=any_of(a, b))
            assert h.state(waiting) is State.PENDING
            reply = bring(h, a, state)
            assert reply.followed == (Moved(waiting, "c", State.SCHEDULED, State.PENDING),)
            assert h.state(waiting) is State.SCHEDULED
            assert bring(h, b, State.FAILED).followed == ()
            assert h.state(waiting) is State.SCHEDULED
            h.succeed(claim_of(h, "c"))

    def test_after_any_of_one_that_has_ended_runs_at_once(self, h: Harness) -> None:
        a, b = h.submit("a"), h.submit("b")
        bring(h, a, State.CANCELLED)
        [reply] = h.enqueue(job("c", after=any_of(b, a)))
        assert isinstance(reply, Enqueued)
        assert reply.state is State.SCHEDULED

    def test_one_that_accepts_failures_waits_for_all_to_end(self, h: Harness) -> None:
        """C28: the option to accept failures."""
        a, b, c = h.submit("a"), h.submit("b"), h.submit("x")
        waiting = h.submit("c", after=ended(a, b, c))
        bring(h, a, State.FAILED)
        bring(h, b, State.CANCELLED)
        assert h.state(waiting) is State.PENDING
        bring(h, c, State.COMPLETED)
        assert h.state(waiting) is State.SCHEDULED

    def test_a_dependency_that_is_tried_again_has_not_ended(self, h: Harness) -> None:
        a = h.submit("a")
        waiting, any_, all_ended = (
            h.submit("c", after=after(a)),
            h.submit("c", after=any_of(a)),
            h.submit("c", after=ended(a)),
        )
        h.fail(claim_of(h, "a"), retry_after=5)
        h.advance(5)
        h.release(claim_of(h, "a"))
        h.snooze(claim_of(h, "a"), 1)
        for each in (waiting, any_, all_ended):
            assert h.state(each) is State.PENDING
        h.advance(1)
        reply = h.succeed(claim_of(h, "a"))
        assert isinstance(reply, Settled)
        assert len(reply.followed) == 3

    def test_jobs_wait_for_others_of_the_same_submission(self, h: Harness) -> None:
        """S1-62: a chain; a place stands for the job that came there."""
        a, b, c, d = h.submit_all(
            job("a"),
            job("b", after=after(0)),
            job("c", after=after(1)),
            job("d", after=after(0, 2)),
        )
        assert [h.state(each) for each in (a, b, c, d)] == [
            State.SCHEDULED,
            State.PENDING,
            State.PENDING,
            State.PENDING,
        ]
        for expected in (a, b, c, d):
            [claimed] = h.claim().jobs
            assert claimed.id == expected
            h.succeed(claimed)
        assert h.claim().jobs == []

    def test_a_whole_batch_lets_its_dependents_go_once(self, h: Harness) -> None:
        parents = [h.submit("a") for _ in range(20)]
        waiting = h.submit("c", after=after(*parents))
        jobs = h.claim(20).jobs
        replies = h.succeed_all(jobs)
        settled = [reply for reply in replies if isinstance(reply, Settled)]
        assert [moved for each in settled for moved in each.followed] == [
            Moved(waiting, "c", State.SCHEDULED, State.PENDING)
        ]

    def test_a_batch_of_mixed_ends_decides_each_dependent(self, h: Harness) -> None:
        good, bad = h.submit("a"), h.submit("b")
        both, one, either = (
            h.submit("c", after=after(good, bad)),
            h.submit("c", after=after(good)),
            h.submit("c", after=any_of(good, bad)),
        )
        settlements = []
        for claimed in h.claim().jobs:
            outcome = Succeeded(DONE) if claimed.id == good else REJECTED
            decision = decide(claimed, outcome, h.clock.rng)
            settlements.append(Settlement(claimed.id, claimed.lease.token, decision))
        h.run(h.store.queue.settle(settlements))
        assert h.state(both) is State.FAILED
        assert h.state(one) is State.SCHEDULED
        assert h.state(either) is State.SCHEDULED
        assert failed_dependency(h, both) == bad

    def test_a_stale_settlement_lets_nobody_go(self, h: Harness) -> None:
        a = h.submit("a")
        waiting = h.submit("c", after=after(a))
        stale = claim_of(h, "a")
        h.advance(31)
        assert not isinstance(h.succeed(stale), Settled)
        assert h.state(waiting) is State.PENDING
        h.claim()
        h.advance(60)
        h.succeed(claim_of(h, "a"))
        assert h.state(waiting) is State.SCHEDULED

    def test_a_repeated_settlement_lets_nobody_go_twice(self, h: Harness) -> None:
        a, b = h.submit("a"), h.submit("b")
        waiting = h.submit("c", after=after(a, b))
        claimed = claim_of(h, "a")
        h.succeed(claimed)
        h.succeed(claimed)
        assert h.state(waiting) is State.PENDING
        assert missing(h, waiting) == 1

    def test_an_exhausted_lease_ends_the_dependents(self, h: Harness) -> None:
        a = h.submit("a", policy=ONE_ATTEMPT)
        waiting = h.submit("c", after=after(a))
        claim_of(h, "a")
        h.advance(31)
        [moved] = h.run(h.store.upkeep.recover(10))
        assert moved.state is State.DEAD_LETTER
        assert moved.followed == (Moved(waiting, "c", State.DEAD_LETTER, State.PENDING),)
        assert h.state(waiting) is State.DEAD_LETTER

    def test_a_claim_that_recovers_ends_the_dependents(self, h: Harness) -> None:
        a = h.submit("a", policy=ONE_ATTEMPT)
        waiting = h.submit("c", after=after(a))
        either = h.submit("d", after=any_of(a))
        claim_of(h, "a")
        h.advance(31)
        assert ids(h.claim().jobs) == [either]
        assert h.state(waiting) is State.DEAD_LETTER

    def test_a_lifetime_that_ends_ends_the_dependents(self, h: Harness) -> None:
        """S1-44: PENDING on a dependency too; S1-72."""
        a = h.submit("a", policy=Policy(lifetime=10.0))
        waiting = h.submit("c", after=after(a))
        own = h.submit("d", after=after(a), policy=Policy(lifetime=5.0))
        behind = h.submit("e", after=after(own))
        h.advance(5)
        [moved] = h.run(h.store.upkeep.expire(10))
        assert moved.job_id == own
        assert moved.was is State.PENDING
        assert h.state(own) is h.state(behind) is State.DEAD_LETTER
        assert h.state(waiting) is State.PENDING
        h.advance(5)
        [moved] = h.run(h.store.upkeep.expire(10))
        assert moved.job_id == a
        assert h.state(waiting) is State.DEAD_LETTER

    def test_a_waiting_job_can_be_cancelled(self, h: Harness) -> None:
        """C20: a job that has not ended can be cancelled, and what waits for it with it."""
        a = h.submit("a")
        b = h.submit("b", after=after(a))
        c = h.submit("c", after=after(b))
        reply = h.cancel(b)
        assert reply == Moved(
            b,
            "b",
            State.CANCELLED,
            State.PENDING,
            (Moved(c, "c", State.CANCELLED, State.PENDING),),
        )
        assert failed_dependency(h, b) is None
        assert failed_dependency(h, c) == b
        assert bring(h, a, State.COMPLETED).followed == ()
        assert h.state(b) is h.state(c) is State.CANCELLED

    def test_what_is_cancelled_together_is_cancelled_on_no_other_account(self, h: Harness) -> None:
        a, b, c, d = h.submit_all(
            job("a"),
            job("b", after=after(0)),
            job("c", after=after(1)),
            job("d", after=after(2)),
        )
        replies = h.run(h.store.control.cancel([a, b, c, b]))
        moved = [reply for reply in replies if isinstance(reply, Moved)]
        assert [(each.job_id, each.was) for each in moved] == [
            (a, State.SCHEDULED),
            (b, State.PENDING),
            (c, State.PENDING),
        ]
        assert replies[3] == Conflict(b, State.CANCELLED)
        followed = [each for reply in moved for each in reply.followed]
        assert followed == [Moved(d, "d", State.CANCELLED, State.PENDING)]
        assert [failed_dependency(h, each) for each in (a, b, c, d)] == [None, None, None, c]
        counts = {view.name: view.counts for view in h.run(h.store.overview.types())}
        assert counts == {name: {State.CANCELLED: 1} for name in "abcd"}

    def test_lifetimes_that_end_together_end_each_on_its_own_account(self, h: Harness) -> None:
        """S1-44: a job that outlived its own lifetime fails for that reason."""
        short = Policy(lifetime=5.0)
        a, b, c = h.submit_all(
            job("a", policy=short),
            job("b", after=after(0), policy=short),
            job("c", after=after(1)),
        )
        h.advance(5)
        moved = h.run(h.store.upkeep.expire(10))
        assert [each.job_id for each in moved] == [a, b]
        followed = [each for reply in moved for each in reply.followed]
        assert followed == [Moved(c, "c", State.DEAD_LETTER, State.PENDING)]
        assert [failed_dependency(h, each) for each in (a, b, c)] == [None, None, b]

    def test_one_that_would_have_been_let_go_is_cancelled_as_it_stood(self, h: Harness) -> None:
        a = h.submit("a")
        b = h.submit("b", after=any_of(a))
        h.advance(7)
        first, second = h.run(h.store.control.cancel([a, b]))
        assert isinstance(first, Moved)
        assert second == Moved(b, "b", State.CANCELLED, State.PENDING)
        assert h.get(b).scheduled_at is None
        counts = {view.name: view.counts for view in h.run(h.store.overview.types())}
        assert counts == {name: {State.CANCELLED: 1} for name in "ab"}

    def test_the_most_urgent_priority_is_inherited(self, h: Harness) -> None:
        """S1-37, S1-69: a dependent inherits the most urgent priority of its dependencies."""
        a = h.submit("a", priority=Priority.CRITICAL)
        b = h.submit("b", priority=Priority.LOW)
        c = h.submit("c", after=after(b, a), priority=Priority.BULK)
        d = h.submit("d", after=after(c), priority=Priority.NORMAL)
        e = h.submit("e", after=after(b), priority=Priority.HIGH)
        assert h.get(c).priority is Priority.CRITICAL
        assert h.get(d).priority is Priority.CRITICAL
        assert h.get(e).priority is Priority.HIGH
        bring(h, a, State.COMPLETED)
        bring(h, b, State.COMPLETED)
        assert ids(h.claim(2).jobs) == [c, e]

    def test_the_priority_of_a_job_that_a_key_returned_is_inherited(self, h: Harness) -> None:
        """S1-37: that of the job which is waited for, not that of the one which was not stored."""
        h.submit("a", key=Key("k"))
        _, second = h.enqueue(
            job("a", key=Key("k"), priority=Priority.CRITICAL),
            job("c", after=after(0), priority=Priority.LOW),
        )
        assert h.get(second.job_id).priority is Priority.NORMAL

    def test_a_waiting_job_can_be_edited(self, h: Harness) -> None:
        """S1-106: priority is editable while not started."""
        a = h.submit("a")
        c = h.submit("c", after=after(a))
        [edited] = h.run(h.store.control.edit([Edit(c, Priority.HIGH, {"x": "y"})]))
        assert edited.job.priority is Priority.HIGH  # type: ignore[union-attr]
        bring(h, a, State.COMPLETED)
        d = h.submit("d", run_at=h.get(c).run_at)
        claimed = h.claim().jobs
        assert ids(claimed) == [c, d]
        assert claimed[0].priority is Priority.HIGH
        assert claimed[0].tags == {"x": "y"}

    def test_a_waiting_job_holds_its_key(self, h: Harness) -> None:
        """S3-12: a key is held while its job has not ended."""
        a = h.submit("a")
        key = Key("k", None, OnDuplicate.REJECT)
        c = h.submit("c", after=after(a), key=key)
        [reply] = h.enqueue(job("c", key=key))
        assert reply == Duplicate(c, "c", "k", State.PENDING, True)
        bring(h, a, State.FAILED)
        h.submit("c", key=key)

    def test_one_can_wait_for_a_job_that_a_key_returned(self, h: Harness) -> None:
        """The place of a duplicate stands for the job that holds the key."""
        key = Key("k")
        existing = h.submit("a", key=key)
        first, second = h.enqueue(job("a", key=key), job("c", after=after(0)))
        assert isinstance(first, Duplicate)
        assert isinstance(second, Enqueued)
        assert h.state(second.job_id) is State.PENDING
        bring(h, existing, State.COMPLETED)
        assert h.state(second.job_id) is State.SCHEDULED

    def test_what_is_named_twice_is_waited_for_once(self, h: Harness) -> None:
        """An id, the same one in capitals, a place and a key can all mean one job."""
        existing = h.submit("a", key=Key("k"))
        _, _, third = h.enqueue(
            job("a", key=Key("k")),
            job("a", key=Key("k")),
            job("c", after=after(0, existing, existing.upper(), 1)),
        )
        assert missing(h, third.job_id) == 1
        assert h.run(h.store.reader.dependents([existing])) == [[third.job_id]]
        bring(h, existing, State.COMPLETED)
        assert h.state(third.job_id) is State.SCHEDULED

    def test_dependencies_and_dependents_can_be_looked_up(self, h: Harness) -> None:
        a, b = h.submit("a", node="first", flow="f1"), h.submit("b")
        c = h.submit("c", after=after(b, a), flow="f1", node="last")
        d = h.submit("d", after=after(b))
        [of_c, of_a, of_nobody] = h.run(h.store.reader.dependencies([c, a, NOBODY]))
        assert [(each.job_id, each.type, each.node) for each in of_c] == [
            (b, "b", None),
            (a, "a", "first"),
        ]
        assert of_a == of_nobody == []
        assert h.run(h.store.reader.dependents([b, c, "no id"])) == [[c, d], [], []]
        claimed = claim_of(h, "a")
        assert claimed.flow == "f1"
        assert not claimed.has_dependencies
        h.succeed(claimed, Body(b"[1]"))
        h.succeed(claim_of(h, "b"))
        assert claim_of(h, "c").has_dependencies
        [with_results] = h.run(h.store.reader.dependencies([c], with_results=True))
        assert [each.result for each in with_results] == [DONE, Body(b"[1]")]
        [without] = h.run(h.store.reader.dependencies([c]))
        assert [each.result for each in without] == [None, None]

    def test_jobs_are_found_by_their_flow(self, h: Harness) -> None:
        h.submit("a")
        [x, y] = [h.submit("b", flow="f1", node=name) for name in ("x", "y")]
        assert ids(h.find(flow="f1")) == [y, x]
        assert [(each.flow, each.node) for each in h.find(flow="f1")] == [("f1", "y"), ("f1", "x")]
        assert h.run(h.store.reader.count(JobFilter(flow="f1"))) == 2
        assert h.run(h.store.reader.count(JobFilter(flow="f2"))) == 0

    def test_why_names_what_a_pending_job_waits_for(self, h: Harness) -> None:
        a = h.submit("a")
        c = h.submit("c", after=after(a))
        situation = h.run(h.store.reader.situation(c))
        assert situation is not None
        assert [each.job_id for each in situation.dependencies] == [a]
        assert h.run(h.store.reader.situation(a)).dependencies == ()  # type: ignore[union-attr]

    def test_what_somebody_still_waits_for_is_not_pruned(self, h: Harness) -> None:
        a, b = h.submit("a"), h.submit("b")
        c = h.submit("c", after=after(a, b))
        bring(h, a, State.COMPLETED)
        h.advance(100)
        request = PruneRequest(keep={state: 10.0 for state in State if state.is_terminal}, limit=10)
        assert h.run(h.store.upkeep.prune(request)).count == 0
        bring(h, b, State.COMPLETED)
        h.succeed(claim_of(h, "c"))
        h.advance(100)
        assert h.run(h.store.upkeep.prune(request)).count == 3
        assert h.run(h.store.reader.dependents([a])) == [[]]
        assert h.find() == []
        assert c

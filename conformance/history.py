"""Histories: what is remembered of each attempt, and what holds after any sequence of moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from random import Random

import pytest

from conformance.harness import NOBODY, REACHABLE, TROUBLE, TTL, Harness, job
from fencepost.core.filter import JobFilter
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Attempt, AttemptOutcome, Category, ClaimedJob, Failure, Job
from fencepost.core.job.lifecycle import TERMINAL, TRANSITIONS, State
from fencepost.core.job.outcome import LEASE_EXPIRED
from fencepost.core.job.policy import Policy, Priority
from fencepost.core.values.names import attempt_id
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestAttempts", "TestHistories"]

CANCELLED = Failure(Category.CANCELLED, "cancelled", code="cancelled")


class TestAttempts:
    def test_a_job_that_never_ran_has_none(self, h: Harness) -> None:
        """S1-78, C33."""
        assert h.attempts(h.submit()) == []
        assert h.run(h.store.reader.attempts(NOBODY)) is None
        assert h.run(h.store.reader.attempts("no id")) is None

    def test_a_running_attempt_has_no_end_yet(self, h: Harness) -> None:
        """S1-56, S1-77, S1-78: it is counted at its start, with its worker."""
        job_id = h.submit()
        started = h.advance(1.0)
        version = h.take("w7").lease.version
        h.advance(1.0)
        assert h.attempts(job_id) == [
            Attempt(
                id=attempt_id(job_id, version),
                job_id=job_id,
                previous_id=None,
                number=1,
                lease_version=version,
                worker="w7",
                outcome=AttemptOutcome.RUNNING,
                started_at=started,
            )
        ]

    def test_every_claim_is_an_attempt_linked_to_the_one_before(self, h: Harness) -> None:
        """S1-3, S1-56, S1-77, S1-78, S1-80, S0-51: oldest first, each with how it ended."""
        job_id = h.submit(policy=Policy(max_attempts=3))
        h.release(h.take("w1"))
        h.snooze(h.take("w2"), 1.0)
        h.advance(1.0)
        h.fail(h.take("w3"))
        h.advance(1.0)
        h.take("w4")
        h.advance(TTL)
        h.run(h.store.upkeep.recover(1))
        h.advance(2.0)
        h.take("w5")
        h.cancel(job_id)
        h.retry(job_id)
        h.succeed(h.take("w6"))
        attempts = h.attempts(job_id)
        assert [(each.number, each.worker, each.outcome, each.failure) for each in attempts] == [
            (1, "w1", AttemptOutcome.RELEASED, None),
            (1, "w2", AttemptOutcome.SNOOZED, None),
            (1, "w3", AttemptOutcome.FAILED, TROUBLE),
            (2, "w4", AttemptOutcome.FAILED, LEASE_EXPIRED.failure),
            (3, "w5", AttemptOutcome.CANCELLED, CANCELLED),
            (1, "w6", AttemptOutcome.SUCCEEDED, None),
        ]
        versions = [each.lease_version for each in attempts]
        assert versions == sorted(set(versions))
        names = [attempt_id(job_id, version) for version in versions]
        assert [each.id for each in attempts] == names
        assert [each.previous_id for each in attempts] == [None, *names[:-1]]
        assert {each.job_id for each in attempts} == {job_id}

    def test_an_attempt_has_its_own_times(self, h: Harness) -> None:
        """S1-78, S1-102: the job shows those of the last."""
        job_id = h.submit()
        first_start = h.advance(1.0)
        claimed = h.take()
        first_end = h.advance(2.0)
        h.fail(claimed)
        second_start = h.advance(4.0)
        h.take()
        second_end = h.advance(TTL + 8)
        h.run(h.store.upkeep.recover(1))
        assert [(each.started_at, each.ended_at) for each in h.attempts(job_id)] == [
            (first_start, first_end),
            (second_start, second_end),
        ]
        assert h.get(job_id).started_at == second_start

    def test_an_edit_or_a_wait_adds_no_attempt(self, h: Harness) -> None:
        """S1-56."""
        job_id = h.submit(delay=5.0)
        h.advance(5.0)
        h.run(h.store.upkeep.promote(1))
        h.cancel(job_id)
        h.retry(job_id)
        assert h.attempts(job_id) == []


EDGES = {(before, after) for before in State for after in TRANSITIONS[before].values()}
EDGES |= {(state, state) for state in State}


def _reachable_in_a_claim() -> set[tuple[State, State]]:
    """Return the moves that recover, expire, promote and claim make when done in a row."""
    paths = set(EDGES)
    for _ in range(3):
        paths |= {(a, c) for a, b in paths if not b.is_terminal for b_, c in EDGES if b == b_}
    return paths - {(a, b) for a, b in paths if a.is_terminal and a != b}


CLAIM_EDGES = _reachable_in_a_claim()


class Wanderer:
    """Makes random moves on a store and sees that every change it observes is legal."""

    def __init__(self, h: Harness, seed: int) -> None:
        self.h = h
        self.random = Random(seed)
        self.leases: list[ClaimedJob] = []
        self.seen: dict[str, Job] = {}
        self.visited: set[State] = set()

    def step(self) -> None:
        name = self.random.choice(MOVES)
        getattr(self, name)()
        self.observe(CLAIM_EDGES if name == "claim" else EDGES, is_pruning=name == "prune")

    def observe(self, legal: set[tuple[State, State]], *, is_pruning: bool) -> None:
        jobs = {each.id: each for each in self.h.find()}
        gone = self.seen.keys() - jobs.keys()
        assert all(is_pruning and self.seen[job_id].state.is_terminal for job_id in gone)
        for job_id, after in jobs.items():
            before = self.seen.get(job_id)
            assert after.attempt <= after.max_attempts
            assert after.attempt <= after.lease_version
            assert (after.completed_at is not None) is after.state.is_terminal
            assert (after.lease is not None) is (after.state is State.RUNNING)
            if before is None:
                assert after.state in (State.SCHEDULED, State.DELAYED)
            else:
                assert (before.state, after.state) in legal
                assert after.lease_version >= before.lease_version
                assert (after.created_at, after.payload_body) == (
                    before.created_at,
                    before.payload_body,
                )
        self.seen = jobs
        self.visited |= {each.state for each in jobs.values()}

    def pick(self) -> str:
        return self.random.choice([*self.seen, NOBODY])

    def enqueue(self) -> None:
        r = self.random
        self.h.enqueue(
            *(
                job(
                    r.choice(["a", "b"]),
                    queue=r.choice(["p", "q", "r"]),
                    priority=Priority(r.randrange(5)),
                    delay=r.choice([0.0, 0.0, 0.0, 5.0, 50.0]),
                    key=r.choice([None, None, Key("k", None), Key("l", 60.0)]),
                    policy=Policy(max_attempts=r.randint(1, 3), lifetime=r.choice([90.0, 1e6])),
                )
                for _ in range(r.randint(1, 4))
            )
        )

    def claim(self) -> None:
        turn, limit = self.random.randrange(10), self.random.randint(0, 5)
        self.leases += self.h.claim(limit, f"w{turn % 3}", turn=turn).jobs

    def settle(self) -> None:
        if not self.leases:
            return
        claimed = self.leases.pop(self.random.randrange(len(self.leases)))
        settle = self.random.choice(SETTLEMENTS)
        settle(self.h, claimed)
        if self.random.random() < 0.3:
            settle(self.h, claimed)

    def snooze(self) -> None:
        if self.leases:
            self.h.snooze(self.random.choice(self.leases), 3.0)

    def heartbeat(self) -> None:
        if self.leases:
            self.h.heartbeat(self.random.choice(self.leases))

    def wait(self) -> None:
        self.h.advance(self.random.choice([0.5, 1.0, 5.0, TTL]))

    def recover(self) -> None:
        self.h.run(self.h.store.upkeep.recover(self.random.randint(1, 5)))

    def promote(self) -> None:
        self.h.run(self.h.store.upkeep.promote(self.random.randint(1, 5)))

    def expire(self) -> None:
        self.h.run(self.h.store.upkeep.expire(self.random.randint(1, 5)))

    def cancel(self) -> None:
        self.h.cancel(self.pick())

    def retry(self) -> None:
        r = self.random
        self.h.retry(self.pick(), reset_attempts=r.random() < 0.5, delay=r.choice([0.0, 4.0]))

    def replay(self) -> None:
        self.h.replay(self.pick())

    def discard(self) -> None:
        self.h.run(self.h.store.control.discard([self.pick()]))

    def pause(self) -> None:
        self.h.run(self.h.store.settings.pause(Scope.QUEUE, "p"))

    def resume(self) -> None:
        self.h.run(self.h.store.settings.resume(Scope.QUEUE, "p"))

    def prune(self) -> None:
        keep = dict.fromkeys(TERMINAL, 120.0)
        self.h.run(self.h.store.upkeep.prune(PruneRequest(keep=keep, limit=3)))

    def check_counts(self) -> None:
        """Compare every counter with a recount, and every job's state with every other's."""
        h = self.h
        jobs = h.find()
        by_state = {state: [each.id for each in h.find(states=(state,))] for state in State}
        assert Counter(chain(*by_state.values())) == Counter(each.id for each in jobs)
        for state, found in by_state.items():
            assert h.run(h.store.reader.count(JobFilter(states=(state,)))) == len(found)
        for view in h.run(h.store.overview.queues()):
            assert view.counts == Counter(each.state for each in jobs if each.queue == view.name)
        for kind in h.run(h.store.overview.types()):
            assert kind.counts == Counter(each.state for each in jobs if each.type == kind.name)
        assert sum(sum(v.counts.values()) for v in h.run(h.store.overview.queues())) == len(jobs)
        assert sum(sum(v.counts.values()) for v in h.run(h.store.overview.types())) == len(jobs)


SETTLEMENTS: list[Callable[[Harness, ClaimedJob], object]] = [
    Harness.succeed,
    Harness.fail,
    Harness.reject,
    Harness.release,
]

MOVES = [
    *["enqueue"] * 4,
    *["claim"] * 6,
    *["settle"] * 6,
    *["wait"] * 4,
    *["recover", "promote", "expire", "cancel", "retry", "replay", "discard"],
    *["snooze", "heartbeat", "pause", "resume", "resume", "prune"],
]


class TestHistories:
    @pytest.mark.parametrize("seed", range(4))
    def test_after_any_history_every_job_is_in_one_state_and_is_counted_there(
        self, h: Harness, seed: int
    ) -> None:
        """S0-3, S0-20, S0-22, S0-34, S0-51, S1-3, S1-11, S1-30, S1-94, C6: every move observed
        is in the table of transitions, no live job vanishes, no counter drifts.
        """
        wanderer = Wanderer(h, seed)
        for number in range(160):
            wanderer.step()
            if number % 40 == 39:
                wanderer.check_counts()
        assert wanderer.visited == set(REACHABLE)

    def test_every_job_of_a_long_run_is_processed_and_none_is_lost(self, h: Harness) -> None:
        """S0-1, S0-2, S0-3, S3-1: whatever workers do, each ends, and each was started."""
        random = Random(7)
        job_ids = h.submit_many(40, policy=Policy(max_attempts=2))
        for _ in range(200):
            for claimed in h.claim(7, f"w{random.randrange(3)}").jobs:
                match random.randrange(4):
                    case 0:
                        h.succeed(claimed)
                    case 1:
                        h.fail(claimed)
                    case 2:
                        h.release(claimed)
            h.advance(random.choice([1.0, TTL]))
            if all(h.state(job_id).is_terminal for job_id in job_ids):
                break
        for job_id in job_ids:
            assert h.state(job_id) in (State.COMPLETED, State.DEAD_LETTER)
            assert h.get(job_id).attempt in (1, 2)
            versions = [each.lease_version for each in h.attempts(job_id)]
            assert versions == sorted(set(versions))
            assert versions[-1] == h.get(job_id).lease_version

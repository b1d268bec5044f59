"""A job's states are told from what is kept of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from conformance.harness import Colour, Harness
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.history import history
from fencepost.core.job.job import Category, Failure
from fencepost.core.job.lifecycle import TRANSITIONS, State
from fencepost.core.job.outcome import Failed
from fencepost.core.job.policy import Policy
from fencepost.store.memory.store import MemoryStore


@pytest.fixture
def h() -> Any:
    harness = Harness(lambda clock: MemoryStore(clock=clock), colour=Colour.SYNC, is_durable=False)
    yield harness
    harness.close()


def states(h: Harness, job_id: str) -> list[State]:
    changes = history(h.get(job_id), h.attempts(job_id))
    assert [each.at for each in changes] == sorted(each.at for each in changes)
    told = [each.state for each in changes]
    for before, after in pairwise(told):
        # What waited for its time became claimable in between, which is not kept.
        reachable = set(TRANSITIONS[before].values())
        through = {later for each in reachable for later in TRANSITIONS[each].values()}
        assert after in reachable | through
    assert told[-1] is h.state(job_id)
    return told


def test_a_job_that_succeeds_is_told_whole(h: Harness) -> None:
    job_id = h.submit()
    h.advance(1)
    claimed = h.take()
    h.advance(1)
    h.succeed(claimed)
    assert states(h, job_id) == [
        State.PENDING,
        State.SCHEDULED,
        State.RUNNING,
        State.COMPLETED,
    ]
    first, _, began, ended = history(h.get(job_id), h.attempts(job_id))
    assert (first.reason, began.reason, ended.reason) == (
        "submitted",
        "attempt 1 began on w1",
        "succeeded",
    )


def test_a_job_that_waits_says_since_when(h: Harness) -> None:
    scheduled, delayed = h.submit(), h.submit(delay=5.0)
    assert states(h, scheduled) == [State.PENDING, State.SCHEDULED]
    assert states(h, delayed) == [State.PENDING, State.DELAYED]
    h.advance(5)
    h.run(h.store.upkeep.promote(10))
    assert states(h, delayed) == [State.PENDING, State.SCHEDULED]


def test_every_attempt_and_its_end_is_told(h: Harness) -> None:
    job_id = h.submit(policy=Policy(max_attempts=2))
    h.release(h.take())
    h.advance(1)
    h.snooze(h.take(), 1.0)
    h.advance(1)
    h.fail(h.take(), retry_after=1.0)
    assert states(h, job_id)[-2:] == [State.RUNNING, State.RETRYING]
    h.advance(10)
    h.fail(h.take())
    assert states(h, job_id) == [
        State.PENDING,
        State.RUNNING,
        State.SCHEDULED,
        State.RUNNING,
        State.DELAYED,
        State.RUNNING,
        State.RETRYING,
        State.SCHEDULED,
        State.RUNNING,
        State.DEAD_LETTER,
    ]


def test_a_reopened_job_tells_of_its_first_end(h: Harness) -> None:
    job_id = h.submit()
    h.settle(h.take(), _failed(Category.PERMANENT))
    h.advance(1)
    h.retry(job_id)
    h.advance(1)
    h.succeed(h.take())
    assert states(h, job_id) == [
        State.PENDING,
        State.RUNNING,
        State.FAILED,
        State.SCHEDULED,
        State.RUNNING,
        State.COMPLETED,
    ]


def test_what_ends_a_waiting_job_is_named(h: Harness) -> None:
    parent = h.submit("a")
    waiting = h.submit("b", after=Dependencies((parent,)))
    h.advance(1)
    h.cancel(parent)
    assert states(h, waiting) == [State.PENDING, State.CANCELLED]
    first, last = history(h.get(waiting), [])
    assert first.reason == "submitted, to wait for others"
    assert parent in last.reason


def _failed(category: Category) -> Any:
    return Failed(Failure(category, "no"))


def test_a_lost_attempt_is_told_as_what_it_was(h: Harness) -> None:
    job_id = h.submit(policy=Policy(max_attempts=1))
    h.take()
    h.advance(31)
    h.run(h.store.upkeep.recover(1))
    assert states(h, job_id)[-2:] == [State.RUNNING, State.DEAD_LETTER]
    assert history(h.get(job_id), h.attempts(job_id))[-1].reason == "system: lease expired"


def test_a_fresh_copy_names_the_dead(h: Harness) -> None:
    dead = h.job_in(State.FAILED)
    fresh = h.replay(dead).job_id
    assert dead in history(h.get(fresh), [])[0].reason

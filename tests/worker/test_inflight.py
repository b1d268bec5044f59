"""The jobs in flight and the threads: the two things that a worker's threads share."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from datetime import UTC, datetime

import msgspec
import pytest
from tests.worker.support import LONG, eventually

from fencepost import Priority
from fencepost.core.bounds import START_WITHIN
from fencepost.core.job.job import Body, ClaimedJob, Lease
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.run.threads import Threads


def claimed(job_id: str, token: str) -> ClaimedJob:
    return ClaimedJob(
        id=job_id,
        type="t",
        queue="q",
        priority=Priority.NORMAL,
        attempt=1,
        max_attempts=3,
        lease=Lease(token, 1, datetime(2026, 1, 1, tzinfo=UTC)),
        lease_ttl=30.0,
        payload=Body(b"{}"),
        policy=DEFAULT_POLICY,
    )


def test_a_job_is_let_go_of_only_under_its_own_lease() -> None:
    """S0-51, C17: the same worker may hold the same job again, under a newer lease."""
    hand = InFlight()
    old = claimed("j1", "old")
    hand.take([old], asked_at=1.0, answered_at=1.5)
    [stale] = hand.everything()
    new = msgspec.structs.replace(old, lease=Lease("new", 2, old.lease.expires_at))
    hand.take([new], asked_at=2.0, answered_at=2.5)
    assert stale.is_dropped
    assert hand.drop("j1", "old") is None
    [held] = hand.everything()
    assert (held.job, held.confirmed_at, held.start_by) == (new, 2.0, 2.5 + START_WITHIN)
    assert hand.drop("j1", "new") is held
    assert (len(hand.held), hand.drop("j1", "new")) == (0, None)
    assert held.is_dropped


def test_claimed_jobs_are_handed_out_in_the_order_of_the_claim() -> None:
    """S0-7."""
    hand = InFlight()
    jobs = [claimed(f"j{n}", "t") for n in range(5)]
    taken, lost = hand.take(jobs, asked_at=0.0, answered_at=0.0)
    assert ([held.job.id for held in taken], lost) == (["j0", "j1", "j2", "j3", "j4"], [])


async def test_threads_are_made_as_needed_and_reused() -> None:
    threads = Threads()
    gate = threading.Barrier(3)

    def meet() -> int:
        gate.wait(LONG)
        return threading.get_ident()

    first = set(await asyncio.gather(*(threads.call(meet) for _ in range(3))))
    assert len(first) == 3, "three at once need three threads"
    for _ in range(20):
        assert await threads.call(threading.get_ident) in first
    threads.close()


async def test_a_call_starts_with_a_fresh_context() -> None:
    variable = contextvars.ContextVar("variable", default="clean")
    variable.set("the caller's")
    threads = Threads()
    assert await threads.call(variable.get) == "clean"
    await threads.call(lambda: variable.set("dirty"))
    assert await threads.call(variable.get) == "clean"
    threads.close()


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(1)])
async def test_whatever_a_call_raises_is_its_outcome(error: BaseException) -> None:
    threads = Threads()

    def fail() -> None:
        raise error

    future = threads.call(fail)
    await eventually(future.done)
    assert future.exception() is error
    threads.close()


@pytest.mark.parametrize("error", [StopIteration(), asyncio.CancelledError()])
async def test_what_a_future_cannot_hold_is_said_in_words(error: BaseException) -> None:
    threads = Threads()

    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError, match="the handler raised"):
        await threads.call(fail)
    threads.close()


async def test_idle_threads_end_when_closed() -> None:
    before = threading.active_count()
    threads = Threads()
    await threads.call(lambda: None)
    threads.close()
    await eventually(lambda: threading.active_count() <= before)


def test_a_thread_that_outlives_the_loop_ends_quietly() -> None:
    """Its worker has gone; nobody waits for its result."""
    threads, go_on = Threads(), threading.Event()
    before = set(threading.enumerate())

    async def call() -> None:
        threads.call(lambda: go_on.wait(LONG))

    asyncio.run(call())
    [left] = set(threading.enumerate()) - before
    go_on.set()
    left.join(LONG)
    assert not left.is_alive()

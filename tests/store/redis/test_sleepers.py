"""Waking one idle worker for a job, and awaited submissions that share a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis

from conformance.harness import job
from fencepost.errors import UnknownOutcomeError
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.store import Listener, Topic
from fencepost.store.redis.engine.connections import ServerPin
from fencepost.store.redis.jobs.catalog import pack
from fencepost.store.redis.store import RedisStore

PATIENCE = 5.0
SOON = 0.05


class Worker:
    """A process that claims and listens."""

    def __init__(self, url: str, prefix: str, **terms: Any) -> None:
        self.store = RedisStore(url, prefix=prefix)
        self.terms = terms
        self.listener: Listener = self.store.listen(Topic.READY)

    def claim(self, limit: int = 1) -> int:
        request = ClaimRequest(worker="w", limit=limit, **self.terms)
        return len(self.store.run(self.store.queue.claim(request)).jobs)

    def close(self) -> None:
        self.listener.close()
        self.store.close()


def submit(worker: Worker, count: int = 1, **fields: Any) -> None:
    worker.store.run(worker.store.queue.enqueue([job(**fields) for _ in range(count)]))


@pytest.fixture
def workers(redis_url: str, redis_prefix: str) -> Any:
    made: list[Worker] = []

    def make(**terms: Any) -> Worker:
        made.append(Worker(redis_url, redis_prefix, **terms))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


def woken(workers: list[Worker], expected: int) -> int:
    """Return how many are woken; waits for those that are expected, and looks once more."""
    count = 0
    for _ in range(int(PATIENCE / SOON)):
        count += sum(worker.listener.wait(SOON) for worker in workers)
        if count >= expected:
            break
    return count + sum(worker.listener.wait(SOON) for worker in workers)


def test_one_job_wakes_one_idle_worker(workers: Any) -> None:
    submitter, *idle = [workers() for _ in range(4)]
    submit(submitter)
    while any(worker.claim() for worker in idle):
        pass
    woken(idle, 0)
    submit(submitter)
    assert woken(idle, 1) == 1
    submit(submitter, 5)
    assert woken(idle, 2) == 2, "the other two; the first has not claimed since"


def test_a_worker_without_free_slots_is_let_alone(workers: Any) -> None:
    busy, idle, submitter = workers(), workers(), workers()
    submit(submitter)
    assert idle.claim() + busy.claim(1) == 1
    assert idle.claim() == 0
    submit(submitter)
    assert busy.claim(1) == 1
    woken([busy, idle], 0)
    idle.claim()
    submit(submitter)
    assert idle.listener.wait(PATIENCE)
    assert not busy.listener.wait(SOON)


def test_only_who_serves_the_queue_is_woken(workers: Any) -> None:
    mail, other, submitter = workers(queues={"mail": 1}), workers(queues={"b": 1}), workers()
    for worker in (mail, other):
        assert worker.claim() == 0
    for _ in range(3):
        submit(submitter, queue="mail")
        assert mail.listener.wait(PATIENCE)
        assert mail.claim(10) == 1
    assert not other.listener.wait(SOON)


def test_one_that_is_gone_is_passed_over(workers: Any, redis_url: str, redis_prefix: str) -> None:
    gone = Worker(redis_url, redis_prefix)
    assert gone.claim() == 0
    gone.store._connections.close()  # as if it had been killed: it says no farewell
    idle, submitter = workers(), workers()
    gone.store._notifier._ears[Topic.READY]._is_closed.set()
    assert idle.claim() == 0
    for _ in range(5):
        submit(submitter)
        if idle.listener.wait(1.0):
            break
        idle.claim(10)
    else:
        pytest.fail("the note of a process that is gone took every job")


def test_the_notes_of_many_that_are_gone_take_no_wake_up(
    workers: Any, redis_url: str, redis_prefix: str
) -> None:
    idle, submitter = workers(), workers()
    submit(submitter)
    notes = {f"gone-{number}": pack({"queues": None, "types": None}) for number in range(40)}
    with redis.Redis.from_url(redis_url) as client:  # few notes are taken in this order
        client.hset(f"{redis_prefix}sleepers", mapping=notes)
    assert idle.claim(2) == 1
    woken([idle], 0)  # by the first job, before it had claimed
    submit(submitter)
    assert idle.listener.wait(PATIENCE)


async def test_awaited_submissions_share_calls(
    redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(redis_url, prefix=redis_prefix)
    await store.run_async(store.queue.enqueue([job()]))
    asked: list[str] = []
    run_async = store._connections.run_async

    async def note(name: str, *words: Any, pin: ServerPin | None = None) -> Any:
        asked.append(name)
        return await run_async(name, *words, pin=pin)

    monkeypatch.setattr(store._connections, "run_async", note)
    made = await asyncio.gather(
        *(store.run_async(store.queue.enqueue([job()])) for _ in range(100))
    )
    assert len({reply.job_id for (reply,) in made}) == 100
    assert asked == ["enqueue"]
    # A lane that is new needs a look: then each is stored on its own.
    tasks = [store.run_async(store.queue.enqueue([job(type=f"t{n}")])) for n in range(3)]
    assert len(await asyncio.gather(*tasks)) == 3
    found = await store.run_async(store.overview.types())
    assert {view.name: sum(view.counts.values()) for view in found} == {
        "mail": 101,
        "t0": 1,
        "t1": 1,
        "t2": 1,
    }
    store.close()


async def test_a_lost_group_is_unknown_to_each(
    redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(redis_url, prefix=redis_prefix)
    await store.run_async(store.queue.enqueue([job()]))

    async def lose(name: str, *words: Any, pin: ServerPin | None = None) -> Any:
        raise UnknownOutcomeError(f"{name}: the reply was lost")

    monkeypatch.setattr(store._connections, "run_async", lose)
    ended = await asyncio.gather(
        *(store.run_async(store.queue.enqueue([job()])) for _ in range(5)),
        return_exceptions=True,
    )
    assert [type(each) for each in ended] == [UnknownOutcomeError] * 5
    assert len({id(each) for each in ended}) == 5
    store.close()


async def test_a_cancelled_submission_does_not_cost_the_others(
    redis_url: str, redis_prefix: str
) -> None:
    store = RedisStore(redis_url, prefix=redis_prefix)
    await store.run_async(store.queue.enqueue([job()]))
    tasks = [asyncio.create_task(store.run_async(store.queue.enqueue([job()]))) for _ in range(5)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in ended].count(True) == 1
    (mail,) = await store.run_async(store.overview.types())
    assert sum(mail.counts.values()) in (5, 6)
    store.close()

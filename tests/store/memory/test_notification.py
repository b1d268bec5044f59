"""Wake-ups inside one process: across threads, onto event loops, and only for a reason."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.store.memory.jobs import claim, submit

from fencepost.core.job.job import AttemptOutcome, Category, Failure, NewJob
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Decision, Settlement
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Topic
from fencepost.store.memory.store import MemoryStore

LONG = 10.0
"""Seconds before a test gives up; one that passes never waits so long."""
FOREVER = 3_600.0
"""For waits that must be ended by a wake-up: a timeout would find the flag set, and pass."""


def test_a_wake_up_that_comes_early_is_kept(store: MemoryStore) -> None:
    ready, settled = store.listen(Topic.READY), store.listen(Topic.SETTLED)
    submit(store, NewJob(type="mail"))
    assert ready.wait(0.0)
    assert not ready.wait(0.0)
    assert not settled.wait(0.0)


def test_a_thread_is_woken(store: MemoryStore) -> None:
    listener = store.listen(Topic.READY)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(listener.wait(FOREVER)), daemon=True)
    waiter.start()
    submit(store, NewJob(type="mail"))
    waiter.join(LONG)
    assert answers == [True]


def test_a_task_is_woken_from_another_thread(store: MemoryStore) -> None:
    listener = store.listen(Topic.READY)

    async def wait() -> tuple[bool, bool]:
        waiting = asyncio.create_task(listener.wait_async(FOREVER))
        await asyncio.sleep(0)  # the task is waiting now, not about to
        await asyncio.to_thread(submit, store, NewJob(type="mail"))
        return await waiting, await listener.wait_async(0.0)

    assert asyncio.run(asyncio.wait_for(wait(), LONG)) == (True, False)


def test_a_cancelled_wait_consumes_nothing(store: MemoryStore) -> None:
    listener = store.listen(Topic.READY)

    async def wait() -> bool:
        waiting = asyncio.create_task(listener.wait_async(FOREVER))
        await asyncio.sleep(0)
        submit(store, NewJob(type="mail"))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return await listener.wait_async(0.0)

    assert asyncio.run(wait())


def test_closing_lets_go_of_whoever_waits(store: MemoryStore) -> None:
    listener = store.listen(Topic.READY)

    async def wait() -> bool:
        waiting = asyncio.create_task(listener.wait_async(FOREVER))
        await asyncio.sleep(0)
        listener.close()
        return await waiting

    assert not asyncio.run(asyncio.wait_for(wait(), LONG))
    submit(store, NewJob(type="mail"))
    assert not listener.wait(LONG)


def _settled(store: MemoryStore, decision: Decision) -> None:
    [job] = claim(store, 1).jobs
    store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))


RELEASE = Decision(Event.RELEASE, State.SCHEDULED, AttemptOutcome.RELEASED, is_counted=False)
BROKEN = Failure(Category.PERMANENT, "broken")
REJECT = Decision(Event.REJECT, State.FAILED, AttemptOutcome.FAILED, failure=BROKEN)


@pytest.mark.parametrize(
    ("act", "topics"),
    [
        (lambda store, _: store.run(store.settings.resume(Scope.TYPE, "mail")), {Topic.READY}),
        (lambda store, _: store.run(store.settings.limit(Scope.APP, "", 3)), {Topic.READY}),
        (lambda store, _: store.run(store.settings.pause(Scope.TYPE, "mail")), set()),
        (lambda store, _: store.run(store.overview.queues()), set()),
        (lambda store, _: claim(store), set()),
        (lambda store, _: _settled(store, RELEASE), {Topic.READY}),
        (lambda store, _: _settled(store, REJECT), {Topic.SETTLED}),
        (lambda store, ids: store.run(store.control.cancel(ids)), {Topic.SETTLED}),
        (lambda store, ids: store.run(store.control.cancel(["unknown"])), set()),
        # Its worker has to know how long it may sleep.
        (lambda store, ids: submit(store, NewJob(type="mail", delay=5.0)), {Topic.READY}),
    ],
)
def test_the_right_bell_rings(
    store: MemoryStore, act: Callable[[MemoryStore, list[str]], object], topics: set[Topic]
) -> None:
    job_ids = submit(store, NewJob(type="mail"))
    listeners = {topic: store.listen(topic) for topic in Topic}
    act(store, job_ids)
    assert {topic for topic, listener in listeners.items() if listener.wait(0.0)} == topics

"""Wake-ups: listeners hear that there may be work, or a result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from conformance.harness import Colour, Harness, job
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.plan import Operation

__all__ = ["TestWaking"]

PATIENCE = 10.0
"""Seconds after which a wake-up is taken for lost; a store that works never takes so long."""


def listen(h: Harness, listener: Listener, timeout: float) -> bool:
    if h.colour is Colour.SYNC:
        return listener.wait(timeout)
    return h.wait(listener.wait_async(timeout))


def _enqueue(h: Harness) -> Callable[[], object]:
    return h.submit


def _release(h: Harness) -> Callable[[], object]:
    h.submit()
    claimed = h.take()
    return lambda: h.release(claimed)


def _promote(h: Harness) -> Callable[[], object]:
    h.submit(delay=1.0)
    h.advance(1.0)
    return lambda: h.run(h.store.upkeep.promote(1))


def _retry(h: Harness) -> Callable[[], object]:
    job_id = h.job_in(State.FAILED)
    return lambda: h.run(h.store.control.retry([RetryRequest(job_id)]))


def _replay(h: Harness) -> Callable[[], object]:
    job_id = h.job_in(State.FAILED)
    return lambda: h.replay(job_id)


def _resume(h: Harness) -> Callable[[], object]:
    h.submit()
    h.run(h.store.settings.pause(Scope.QUEUE, "default"))
    return lambda: h.run(h.store.settings.resume(Scope.QUEUE, "default"))


def _succeed(h: Harness) -> Callable[[], object]:
    h.submit()
    claimed = h.take()
    return lambda: h.succeed(claimed)


def _reject(h: Harness) -> Callable[[], object]:
    h.submit()
    claimed = h.take()
    return lambda: h.reject(claimed)


def _cancel(h: Harness) -> Callable[[], object]:
    job_id = h.submit()
    return lambda: h.cancel(job_id)


NEWS: dict[Callable[[Harness], Callable[[], object]], Topic] = {
    _enqueue: Topic.READY,
    _release: Topic.READY,
    _promote: Topic.READY,
    _retry: Topic.READY,
    _replay: Topic.READY,
    _resume: Topic.READY,
    _succeed: Topic.SETTLED,
    _reject: Topic.SETTLED,
    _cancel: Topic.SETTLED,
}


class TestWaking:
    @pytest.mark.parametrize("prepare", list(NEWS), ids=lambda each: each.__name__.strip("_"))
    def test_news_since_the_last_wait_is_heard(
        self, h: Harness, prepare: Callable[[Harness], Callable[[], object]]
    ) -> None:
        """S2-31, S0-36: also when it came while nobody was waiting."""
        act = prepare(h)
        listener = h.store.listen(NEWS[prepare])
        act()
        assert listen(h, listener, PATIENCE)
        listener.close()

    @pytest.mark.parametrize("topic", list(Topic), ids=str)
    def test_without_news_a_wait_ends_in_time(self, h: Harness, topic: Topic) -> None:
        """S2-31: bounded, whatever happens."""
        listener = h.store.listen(topic)
        # A spurious wake-up is allowed, an endless row is not.
        assert not all(listen(h, listener, 0.2) for _ in range(100))
        listener.close()
        listener.close()

    def test_every_listener_hears_it(self, h: Harness) -> None:
        """S2-31: also those of other processes."""
        listeners = [store.listen(Topic.READY) for store in h.peers(2) for _ in range(2)]
        h.submit()
        assert [listen(h, listener, PATIENCE) for listener in listeners] == [True] * 4
        for listener in listeners:
            listener.close()

    def test_a_waiting_listener_is_woken(self, h: Harness) -> None:
        """S2-31, S2-24: by another thread, or by another task of the same loop."""
        waiting, waking = h.peers(2)
        listener = waiting.listen(Topic.READY)
        operation = waking.queue.enqueue([job()])
        if h.colour is Colour.SYNC:
            assert _wake_thread(listener, waking, operation)
        else:
            assert h.wait(_wake_task(listener, waking, operation))
        listener.close()


def _wake_thread(listener: Listener, store: Store, operation: Operation[Any]) -> bool:
    heard: list[bool] = []
    thread = threading.Thread(target=lambda: heard.append(listener.wait(PATIENCE)), daemon=True)
    thread.start()
    store.run(operation)
    thread.join(2 * PATIENCE)
    return heard == [True]


async def _wake_task(listener: Listener, store: Store, operation: Operation[Any]) -> bool:
    heard, _ = await asyncio.gather(listener.wait_async(PATIENCE), store.run_async(operation))
    return heard

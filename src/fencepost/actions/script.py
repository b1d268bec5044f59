"""What a caller's request does, written once for both faces.

A script is a generator that yields store operations and pauses, and is sent their results. The sync
face drives it in the calling thread, the async face on the event loop; neither contains logic.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import msgspec

from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

T = TypeVar("T")


class Pause(msgspec.Struct, frozen=True):
    """Wait for news of *topic*, at most so long."""

    topic: Topic
    timeout: float


Script = Generator["Operation[Any] | Pause", Any, T]


def drive(script: Script[T], store: Store) -> T:
    """Run *script* to its end in this thread."""
    with _Ears(store) as ears:
        try:
            request = next(script)
            while True:
                if isinstance(request, Pause):
                    reply: Any = ears.listener(request.topic).wait(request.timeout)
                else:
                    reply = store.run(request)
                request = script.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result


async def drive_async(script: Script[T], store: Store) -> T:
    """Run *script* to its end without blocking the event loop."""
    with _Ears(store) as ears:
        try:
            request = next(script)
            while True:
                if isinstance(request, Pause):
                    listener = ears.listener(request.topic)
                    reply: Any = await listener.wait_async(request.timeout)
                else:
                    reply = await store.run_async(request)
                request = script.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result


class _Ears:
    """Listeners that live as long as the script."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: dict[Topic, Listener] = {}

    def __enter__(self) -> _Ears:
        return self

    def listener(self, topic: Topic) -> Listener:
        if topic not in self._listeners:
            self._listeners[topic] = self._store.listen(topic)
        return self._listeners[topic]

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()

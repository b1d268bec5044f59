"""The way between a process and the store: slow, lossy, black at times, and it delivers twice.

A request that has left its process goes on without it: a process that is killed or stopped
meanwhile may have written all the same, and one that was swallowed may be delivered
when nobody expects it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar, cast

from fencepost.core.job.idempotency import Key
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.plan import Effect, Operation
from lab.simulation.clock import SimulatedClock
from lab.simulation.history import Fault, History, Turn
from lab.simulation.loop import SimulatedLoop
from lab.simulation.server import UNDER_LEASE, Server

T = TypeVar("T")

LATENCY = 0.004
PATIENCE = (10.0, 60.0)
"""Seconds after which a driver gives up on a server that says nothing."""
LATE_MAX = 15.0
"""Seconds after which a packet that went astray may still arrive: several leases."""


class Link:
    """How one process's way to the store is at present."""

    def __init__(self, repeats: float = 0.0, latency: float = LATENCY) -> None:
        self._usual_latency = latency
        self.troubles = 0
        """How many of them there are at present; the way is mended when the last one ends."""
        self.hanging = 0
        """Requests that were swallowed, and on which the driver has not given up."""
        self.heal(repeats)

    def heal(self, repeats: float = 0.0) -> None:
        self.latency = self._usual_latency
        """Seconds of one way, in the mean."""
        self.request_loss = 0.0
        self.reply_loss = 0.0
        self.is_refused = False
        self.is_black = False
        self.notification_loss = 0.0
        self.repeats = repeats
        """How likely a request is delivered a second time, later."""


class Network:
    """Carries requests and replies, each in its own time."""

    def __init__(
        self, server: Server, outside: SimulatedLoop, rng: Random, history: History
    ) -> None:
        self._server = server
        self._outside = outside
        self._rng = rng
        self._history = history

    def connect(self, process: str, clock: SimulatedClock, link: Link) -> RemoteStore:
        return RemoteStore(self, self._server, process, clock, link)

    def send(
        self, link: Link, process: str, operation: Operation[T], reply: asyncio.Future[T]
    ) -> None:
        """Have *operation* executed, perhaps, and *reply* resolved, perhaps."""
        rng = self._rng
        if link.is_refused or (link.request_loss and rng.random() < link.request_loss):
            self._note("request lost", process)
            self._later(self._way(link), _fail, reply, StoreUnavailableError("request lost"))
            return
        if link.is_black:
            self._swallow(process, operation)
            self._give_up_later(link, process, operation, reply)
            return
        self._later(self._way(link), self._deliver, link, process, operation, reply)
        if link.repeats and _is_repeatable(operation) and rng.random() < link.repeats:
            self._note("delivered again", process)
            self._later(rng.uniform(0, LATE_MAX), self._deliver_late, process, operation)

    def spoil(self, link: Link, process: str, modes: dict[str, float], seconds: float) -> None:
        """Make a way bad for a while."""

        def mend() -> None:
            link.troubles -= 1
            if not link.troubles:
                link.heal(link.repeats)
                self._note_connection(link, process)

        link.troubles += 1
        for name, value in modes.items():
            setattr(link, name, value)
        self._history.add(Turn(self._outside.time(), process, "cut off"))
        self._later(seconds, mend)

    def _note_connection(self, link: Link, process: str) -> None:
        if not link.troubles and not link.hanging:
            self._history.add(Turn(self._outside.time(), process, "connected"))

    def way_back(self, link: Link) -> float:
        return self._way(link)

    def loses_notification(self, link: Link) -> bool:
        return link.is_black or (
            link.notification_loss > 0 and self._rng.random() < link.notification_loss
        )

    def _swallow(self, process: str, operation: Operation[Any]) -> None:
        """Lose a request for good, or deliver it unheard, now or long afterwards."""
        self._note("black hole", process)
        fate = self._rng.random()
        if fate < 0.3:
            self._later(self._rng.uniform(0, 0.05), self._deliver_late, process, operation)
        elif fate < 0.6:
            self._later(self._rng.uniform(0, LATE_MAX), self._deliver_late, process, operation)

    def _deliver(
        self, link: Link, process: str, operation: Operation[T], reply: asyncio.Future[T]
    ) -> None:
        try:
            result = self._server.execute(operation, process)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            self._later(self._way(link), _fail, reply, error)
            return
        if link.is_black:
            self._give_up_later(link, process, operation, reply)
        elif link.reply_loss and self._rng.random() < link.reply_loss:
            self._note("reply lost", process)
            self._later(self._way(link), _fail, reply, _lost_reply(operation))
        else:
            self._later(self._way(link), _resolve, reply, result)

    def _deliver_late(self, process: str, operation: Operation[Any]) -> None:
        try:
            self._server.execute(operation, process, is_late=True)
        except Exception:  # noqa: BLE001 - nobody waits for the answer
            return

    def _give_up_later(
        self, link: Link, process: str, operation: Operation[T], reply: asyncio.Future[T]
    ) -> None:
        def give_up() -> None:
            link.hanging -= 1
            _fail(reply, _lost_reply(operation))
            self._note_connection(link, process)

        link.hanging += 1
        self._later(self._rng.uniform(*PATIENCE), give_up)

    def _way(self, link: Link) -> float:
        return link.latency * (0.5 + self._rng.random())

    def _later(self, seconds: float, call: Callable[..., object], *given: Any) -> None:
        self._outside.call_later(seconds, call, *given)

    def _note(self, kind: str, process: str) -> None:
        self._history.add(Fault(self._outside.time(), kind, process))


class RemoteStore:
    """The store as a process sees it. Makes the server's own operations, and sends them."""

    url = "memory://"

    def __init__(
        self, network: Network, server: Server, process: str, clock: SimulatedClock, link: Link
    ) -> None:
        self.clock = clock
        self.link = link
        self._network = network
        self._server = server
        self._process = process
        self._listeners: list[Listener] = []

    def as_store(self) -> Store:
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server.store, name)

    def run(self, operation: Operation[T]) -> T:
        raise AssertionError(f"{operation.name} would block; a simulation cannot")

    async def run_async(self, operation: Operation[T]) -> T:
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._network.send(self.link, self._process, operation, reply)
        return await reply

    def listen(self, topic: Topic) -> Listener:
        listener = self._server.store.listen(topic)
        self._listeners.append(listener)
        return cast(Listener, RemoteListener(self, listener))

    def hang_up(self) -> None:
        """The process is gone, and the store notices that nobody listens any more."""
        for listener in self._listeners:
            listener.close()

    def loses_notification(self) -> bool:
        return self._network.loses_notification(self.link)

    def way_back(self) -> float:
        return self._network.way_back(self.link)

    def close(self) -> None:
        self.hang_up()


class RemoteListener:
    """Receives the store's notifications, a little later, and not always."""

    def __init__(self, store: RemoteStore, listener: Listener) -> None:
        self._store = store
        self._listener = listener

    async def wait_async(self, timeout: float) -> bool:
        is_heard = await self._listener.wait_async(timeout)
        if not is_heard or self._store.loses_notification():
            return False
        await self._store.clock.sleep_async(self._store.way_back())
        return True

    def close(self) -> None:
        self._listener.close()


def _is_repeatable(operation: Operation[Any]) -> bool:
    """Tell whether a second delivery is one that the product promises to withstand."""
    if operation.is_a(QueueFacet.enqueue):
        return all(isinstance(new.key, Key) for new in operation.given[0])
    return operation.is_a(*UNDER_LEASE)


def _lost_reply(operation: Operation[Any]) -> Exception:
    if operation.effect is Effect.READ:
        return StoreUnavailableError("reply lost; nothing was to be written")
    return UnknownOutcomeError("reply lost")


def _resolve(reply: asyncio.Future[T], result: T) -> None:
    if not reply.done():
        reply.set_result(result)


def _fail(reply: asyncio.Future[Any], error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)

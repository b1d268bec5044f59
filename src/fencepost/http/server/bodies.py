"""The bodies of all requests that a server holds at once: counted to the byte, and bounded.

Each body has a bound of its own, and thousands may arrive at the same time. So they share one
budget: what comes when it is used up is refused, after those were cut whose senders have stopped
sending. A quarter of it is for small bodies alone, so that heartbeats and claims get through while
somebody fills the rest.
"""

from __future__ import annotations

from asyncio import Timeout, get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.clock import Clock
from fencepost.core.bounds import (
    HTTP_BODIES_LARGE_SHARE,
    HTTP_BODY_MAX,
    HTTP_BODY_STALL,
    HTTP_BODY_STEP,
)
from fencepost.http.request.problems import HttpError


class Bodies:
    """How many bytes of bodies there are, and may be."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self.held = 0
        """Bytes of all bodies that are arriving, or are being worked on."""
        self._limit = limit
        self.clock = clock
        self.arriving: set[HeldBytes] = set()

    def begin(self) -> HeldBytes:
        """Return the account of a request, of whose body nothing has come."""
        return HeldBytes(self)

    def check(self, size: int) -> None:
        """Raise HttpError if a body that announces *size* bytes would find no room now.

        Nobody is cut for what has not come: it may never.
        """
        if self.held + size > self._room(size):
            slow = sum(each.size for each in self._slow())
            if self.held - slow + size > self._room(size):
                raise too_many_bodies()

    def take(self, held: HeldBytes, count: int) -> None:
        """Count *count* more bytes of a body, or raise HttpError if there is no room for them.

        Bodies whose senders have stopped sending are cut for it, the largest first.
        """
        room = self._room(held.size + count)
        if self.held + count > room:
            slow = sorted((each for each in self._slow() if each is not held), key=_size)
            while slow and self.held + count > room:
                slow.pop().cut()
            if self.held + count > room:
                raise too_many_bodies()
        self.held += count
        held.size += count
        held.got_on()

    def _room(self, size: int) -> int:
        """Return how much may be held in all when a body of *size* bytes is among it."""
        is_small = size <= HTTP_BODY_MAX
        return self._limit if is_small else int(self._limit * HTTP_BODIES_LARGE_SHARE)

    def _slow(self) -> list[HeldBytes]:
        now = self.clock.monotonic()
        return [each for each in self.arriving if each.is_slow(now)]

    def give_back(self, count: int) -> None:
        self.held -= count
        assert self.held >= 0


class HeldBytes:
    """What one request holds of the budget."""

    __slots__ = ("_bodies", "_marked", "_marked_at", "_timeout", "is_cut", "size")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.size = 0
        self.is_cut = False
        self._timeout: Timeout | None = None
        self._marked = 0
        self._marked_at = 0.0
        """When it had last got on by HTTP_BODY_STEP."""

    def take(self, count: int) -> None:
        """Count *count* more bytes, or raise HttpError."""
        if count:
            self._bodies.take(self, count)

    def give_back(self) -> None:
        """Count none of it any longer; more than once does no harm."""
        self._bodies.give_back(self.size)
        self.size = 0

    @contextmanager
    def arriving(self, timeout: Timeout) -> Iterator[None]:
        """Within the block, let it be cut by way of *timeout* if it is slow and room is needed."""
        self._timeout = timeout
        self._marked, self._marked_at = self.size, self._bodies.clock.monotonic()
        self._bodies.arriving.add(self)
        try:
            yield
        finally:
            self._bodies.arriving.discard(self)
            self._timeout = None

    def got_on(self) -> None:
        """Remember when this was, if enough has come since the last time."""
        if self._timeout is not None and self.size - self._marked >= HTTP_BODY_STEP:
            self._marked, self._marked_at = self.size, self._bodies.clock.monotonic()

    def is_slow(self, now: float) -> bool:
        """Tell whether too little of it has come for too long."""
        return now - self._marked_at > HTTP_BODY_STALL

    def cut(self) -> None:
        """Give up the body: whoever reads it is told at the next turn of the loop."""
        assert self._timeout is not None
        self.is_cut = True
        self.give_back()
        self._bodies.arriving.discard(self)
        if not self._timeout.expired():  # else its time is up in this very moment
            self._timeout.reschedule(get_running_loop().time())


def _size(held: HeldBytes) -> int:
    return held.size


def too_many_bodies() -> HttpError:
    return HttpError(
        "this server is reading as much from others as it can hold; nothing was done: ask again",
        status=503,
        code="too_many_bodies",
        headers={"retry-after": "1"},
    )

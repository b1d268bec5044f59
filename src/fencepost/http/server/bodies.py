"""A budget for the bodies of all requests that a server holds at once, counted to the byte.

Each body has a limit, but thousands may arrive at the same time. So they share one budget. When it
is used up, new bodies are refused, after those were cut whose senders have stopped sending. A
quarter of it is reserved for small bodies, so that heartbeats and claims get through.
"""

from __future__ import annotations

from asyncio import Timeout, get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.clock import Clock
from fencepost.http.request.problems import HttpError
from fencepost.wire.bounds import (
    HTTP_BODIES_LARGE_SHARE,
    HTTP_BODY_MAX,
    HTTP_BODY_STALL,
    HTTP_BODY_STEP,
)


class Bodies:
    """The bytes of bodies that are held, and their limit."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self.held = 0
        """Bytes of all bodies that are arriving or being processed."""
        self._limit = limit
        self.clock = clock
        self.arriving: set[HeldBytes] = set()

    def check(self, size: int) -> None:
        """Raise HttpError if there is no room now for a body that announces *size* bytes.

        No other body is cut for it yet: what is announced may never come.
        """
        if self.held + size > self._room(size):
            slow = sum(each.size for each in self._slow())
            if self.held - slow + size > self._room(size):
                raise too_many_bodies()

    def take(self, held: HeldBytes, count: int) -> None:
        """Count *count* more bytes of a body, or raise HttpError if there is no room for them.

        To make room, bodies whose senders have stopped sending are cut, the largest first.
        """
        room = self._room(held.size + count)
        if self.held + count > room:
            slow = [each for each in self._slow() if each is not held]
            slow.sort(key=lambda each: each.size)
            while slow and self.held + count > room:
                slow.pop().cut()
            if self.held + count > room:
                raise too_many_bodies()
        self.held += count
        held.size += count
        held.note_growth()

    def _room(self, size: int) -> int:
        """Return the limit in all for a body of *size* bytes."""
        is_small = size <= HTTP_BODY_MAX
        return self._limit if is_small else int(self._limit * HTTP_BODIES_LARGE_SHARE)

    def _slow(self) -> list[HeldBytes]:
        now = self.clock.monotonic()
        return [each for each in self.arriving if each.is_slow(now)]

    def give_back(self, count: int) -> None:
        self.held -= count
        assert self.held >= 0


class HeldBytes:
    """The share of one request in the budget."""

    __slots__ = ("_bodies", "_marked", "_marked_at", "_timeout", "is_cut", "size")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.size = 0
        self.is_cut = False
        self._timeout: Timeout | None = None
        self._marked = 0
        self._marked_at = 0.0
        """When it last grew by HTTP_BODY_STEP."""

    def take(self, count: int) -> None:
        """Count *count* more bytes, or raise HttpError."""
        if count:
            self._bodies.take(self, count)

    def give_back(self) -> None:
        """Return all of it to the budget; safe to call again."""
        self._bodies.give_back(self.size)
        self.size = 0

    @contextmanager
    def arriving(self, timeout: Timeout) -> Iterator[None]:
        """Within the block, allow a cut through *timeout* if it is slow and room is needed."""
        self._timeout = timeout
        self._marked, self._marked_at = self.size, self._bodies.clock.monotonic()
        self._bodies.arriving.add(self)
        try:
            yield
        finally:
            self._bodies.arriving.discard(self)
            self._timeout = None

    def note_growth(self) -> None:
        """Note the time if enough has arrived since the last note."""
        if self._timeout is not None and self.size - self._marked >= HTTP_BODY_STEP:
            self._marked, self._marked_at = self.size, self._bodies.clock.monotonic()

    def is_slow(self, now: float) -> bool:
        """Return whether too little has arrived for too long."""
        return now - self._marked_at > HTTP_BODY_STALL

    def cut(self) -> None:
        """Give up the body: its reader is interrupted at the next turn of the loop."""
        assert self._timeout is not None
        self.is_cut = True
        self.give_back()
        self._bodies.arriving.discard(self)
        if not self._timeout.expired():  # else its time is up at this moment
            self._timeout.reschedule(get_running_loop().time())


def too_many_bodies() -> HttpError:
    return HttpError(
        "the server holds as many bytes of bodies as it can; nothing was done: repeat the request",
        code="too_many_bodies",
        headers={"retry-after": "1"},
    )

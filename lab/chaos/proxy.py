"""A bad network: a way to a server that cuts, delays or swallows what passes, on request.

One event loop in a thread serves all connections. The orders are plain attributes that any thread
sets; code that waits for an order reads ``left``.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from enum import StrEnum
from random import Random

from fencepost.clock import Clock

CHUNK = 65_536


class Cut(StrEnum):
    """Where a connection is cut."""

    REQUEST = "request"
    """The server never hears what was asked."""
    BEFORE = "before"
    """The server answers, and nobody hears it."""
    WITHIN = "within"
    """A part of the answer arrives."""
    AFTER = "after"
    """The answer arrives, and nothing after it."""


class Proxy:
    """A port that leads to whatever server is the target now; to none, it refuses."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self.target: int | None = None
        """The server's port."""
        self.delay = 0.0
        """Seconds that every piece is late."""
        self.is_black_hole = False
        self.cut: Cut | None = None
        self.left = 0
        """How many more connections are to be cut."""
        self._pairs: set[_Pair] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.target is None:
            writer.transport.abort()
            return
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(self, (reader, writer), upstream)
        self._pairs.add(pair)
        try:
            await pair.run()
        finally:
            self._pairs.discard(pair)

    def hang_up(self) -> None:
        """Cut every connection that there is."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def _abort_all(self) -> None:
        for pair in list(self._pairs):
            pair.abort()

    def heal(self) -> None:
        """Pass everything on again; what was swallowed stays so, and its connections are cut."""
        was_black_hole, self.is_black_hole = self.is_black_hole, False
        self.cut, self.left, self.delay = None, 0, 0.0
        if was_black_hole:
            self.hang_up()

    def close(self) -> None:
        self.hang_up()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What each piece that passes is subject to.

    async def bend(self, data: bytes, *, is_answer: bool) -> tuple[bytes, bool]:
        """Return what of *data* is passed on, and whether the connection is cut then."""
        if self.delay:
            await self._clock.sleep_async(self.delay)
        if self.is_black_hole:
            return b"", False
        if self.left <= 0 or self.cut is None or is_answer is (self.cut is Cut.REQUEST):
            return data, False
        self.left -= 1
        match self.cut:
            case Cut.REQUEST | Cut.BEFORE:
                return b"", True
            case Cut.WITHIN:
                return data[: self._rng.randrange(1, max(len(data), 2))], True
            case Cut.AFTER:
                return data, True


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Pair:
    """One client and its connection to the server."""

    def __init__(self, proxy: Proxy, client: Ends, server: Ends) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server

    async def run(self) -> None:
        ways = (
            self._pass(self._client[0], self._server[1], is_answer=False),
            self._pass(self._server[0], self._client[1], is_answer=True),
        )
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                passed, is_cut = await self._proxy.bend(data, is_answer=is_answer)
                if passed:
                    writer.write(passed)
                    await writer.drain()
                if is_cut:
                    if passed:
                        # An abort would throw away what has not left yet.
                        writer.close()
                        with suppress(OSError):
                            await writer.wait_closed()
                    return

    def abort(self) -> None:
        for _, writer in (self._client, self._server):
            writer.transport.abort()

"""One request on its way: what is requested, by whom, and the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from fencepost.core.access.bounds import TOKEN_RECHECK_SECONDS
from fencepost.errors import FencepostError, StoreUnavailableError, UnknownOutcomeError
from fencepost.wire.bounds import HTTP_BODY_ASIDE

if TYPE_CHECKING:
    from fencepost.actions.backend import Script
    from fencepost.actions.session import LocalActions, Session
    from fencepost.core.access.tokens import Principal
    from fencepost.http.api import Api

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")


class Nothing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A query or a body without fields."""


class Call(msgspec.Struct, Generic[B, Q], kw_only=True):
    """A request that has been read and allowed."""

    api: Api
    principal: Principal
    request_id: str
    path: dict[str, str]
    query: Q
    body: B
    is_gone: Callable[[], bool]
    """Tells whether the client has hung up; call ``listen`` first."""
    listen: Callable[[], None]
    recheck: Callable[[], Awaitable[Principal]]
    """Raises if the token does not allow this request any more."""
    headers: dict[str, str] = {}
    """Those that the route says it reads."""
    scope: dict[str, Any] = {}
    """The request as ASGI gives it."""
    size: int = 0
    """Bytes of the body."""
    detail: dict[str, Any] = {}
    """What the operation adds to the audit log; never a payload."""

    async def check_again(self) -> None:
        """Raise if the token does not allow this any more, and go by its present rights."""
        self.principal = await self.recheck()

    def is_off(self) -> bool:
        """Return whether waiting is of no use any more: the client is gone, or the server stops."""
        return self.api.is_stopping or self.is_gone()

    async def compute(self, work: Callable[[], T]) -> T:
        """Return what *work* makes of the body; for a large one, off the event loop."""
        return await self.api.aside.run(self.size, work)

    @property
    def session(self) -> Session:
        return self.api.app.session

    @property
    def actions(self) -> LocalActions:
        """The actions on the app's store, as scripts to run."""
        return self.session.actions

    async def run(self, script: Script[T]) -> T:
        return await self.session.run_async(script)

    async def run_apart(self, script: Script[T]) -> T:
        """Run a script that computes for long, off the event loop."""
        return await self.api.figures.apart(lambda: self.session.run(script))


class Reply(msgspec.Struct, frozen=True):
    """An answer."""

    body: Any
    """A struct; bytes, which are sent as they are; or None for no body."""
    status: int = 200
    headers: dict[str, str] = {}
    media_type: str = "application/json"


class Streamed(msgspec.Struct, frozen=True):
    """An answer that continues until one side ends it."""

    parts: AsyncGenerator[bytes, None]
    media_type: str
    headers: dict[str, str] = {}
    close: Callable[[], None] = lambda: None
    """Called once nothing more is sent, also if none of the parts was ever read."""


Operation = Callable[[Call[Any, Any]], Awaitable[Reply | Streamed]]


async def afterwards(reading: Awaitable[T]) -> T:
    """Return what is read after a write; a 503 here would say that nothing was written.

    Raises UnknownOutcomeError if the store is unavailable.
    """
    try:
        return await reading
    except StoreUnavailableError as error:
        raise UnknownOutcomeError(str(error)) from error


class Aside:
    """One thread for what would hold up the event loop, as large bodies do; one after the other.

    More threads would take the interpreter from the event loop more often than it gets a turn, and
    each would hold a large decoded body in memory.
    """

    def __init__(self, name: str) -> None:
        # The thread starts with the first work, and ends when this object is collected.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"fencepost-{name}")

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Return what *work* makes of a body of *size* bytes: at once, if that is small."""
        return work() if size <= HTTP_BODY_ASIDE else await self.apart(work)

    async def apart(self, work: Callable[[], T]) -> T:
        """Return what *work* makes, in the thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, copy_context().run, work)


@asynccontextmanager
async def token_watch(call: Call[Any, Any]) -> AsyncIterator[Callable[[], bool]]:
    """Check the token of a request that waits, at intervals.

    Revoking it ends the wait, and so does restricting it: else the client would wait on for what
    it may not know of, and learn from the answer when it happened.

    Yields what tells whether waiting is of use no more. It runs beside the wait: a claim that is
    interrupted for the check could miss a notification, or would query the store more often. Call
    ``call.check_again`` after the wait, before the answer.
    """
    is_over = False

    async def check() -> None:
        nonlocal is_over
        while not is_over:
            await call.session.clock.sleep_async(TOKEN_RECHECK_SECONDS)
            try:
                is_over = await call.recheck() != call.principal
            except FencepostError:
                is_over = True

    checking = asyncio.get_running_loop().create_task(check())
    try:
        yield lambda: is_over or call.is_off()
    finally:
        checking.cancel()
        # Not awaited directly: its cancellation is expected, while ours must be raised.
        await asyncio.wait({checking})

"""One request on its way through: what was asked, by whom; and what is answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from fencepost.errors import StoreUnavailableError, UnknownOutcomeError

if TYPE_CHECKING:
    from fencepost.actions.local.actions import LocalActions
    from fencepost.actions.script import Script
    from fencepost.actions.session import Session
    from fencepost.core.access.tokens import Principal
    from fencepost.http.api import Api

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")


class Nothing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request that says nothing more."""


class Call(msgspec.Struct, Generic[B, Q], kw_only=True):
    """A request that has been read and allowed."""

    api: Api
    principal: Principal
    request_id: str
    path: dict[str, str]
    query: Q
    body: B
    is_gone: Callable[[], bool]
    """Tells whether whoever asked has hung up; after ``listen`` was called."""
    listen: Callable[[], None]
    recheck: Callable[[], Awaitable[Principal]]
    """Raises if whoever asked may no longer."""
    headers: dict[str, str] = {}
    """Those that the route says it reads."""
    size: int = 0
    """Bytes of the body."""
    detail: dict[str, Any] = {}
    """What the operation adds to the audit log; never a payload."""

    async def check_again(self) -> None:
        """Raise if whoever asked may no longer; from now on they may what their token now says."""
        self.principal = await self.recheck()

    def is_off(self) -> bool:
        """Tell whether there is no use in waiting on: nobody listens, or the server stops."""
        return self.api.is_stopping or self.is_gone()

    async def compute(self, work: Callable[[], T]) -> T:
        """Return what *work* makes of the body; of a large one, others are answered meanwhile."""
        return await self.api.aside.run(self.size, work)

    @property
    def session(self) -> Session:
        return self.api.app.session

    @property
    def actions(self) -> LocalActions:
        """What can be asked of the app's store, as scripts to be run."""
        return self.session.actions

    async def run(self, script: Script[T]) -> T:
        return await self.session.run_async(script)


class Reply(msgspec.Struct, frozen=True):
    """An answer."""

    body: Any
    """A struct; bytes, which are sent as they are; or None, and there is no body."""
    status: int = 200
    headers: dict[str, str] = {}
    media_type: str = "application/json"


class Streamed(msgspec.Struct, frozen=True):
    """An answer that goes on until one side has had enough."""

    parts: AsyncGenerator[bytes, None]
    media_type: str
    headers: dict[str, str] = {}
    close: Callable[[], None] = lambda: None
    """Called once nothing more is sent, also if none of the parts was ever asked for."""


Operation = Callable[[Call[Any, Any]], Awaitable[Reply | Streamed]]


async def afterwards(reading: Awaitable[T]) -> T:
    """Return what is read, or raise UnknownOutcomeError: a 503 would say that nothing was done."""
    try:
        return await reading
    except StoreUnavailableError as error:
        raise UnknownOutcomeError(str(error)) from error

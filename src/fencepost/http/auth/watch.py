"""A request that waits: is its token still good? One that was revoked must not outlast it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from fencepost.core.bounds import TOKEN_RECHECK_SECONDS
from fencepost.errors import FencepostError
from fencepost.http.request.call import Call


class TokenWatch:
    """Looks at the token again and again while a request waits, and says when there is an end.

    Beside the waiting, not in it: a claim that is interrupted to look would miss news, or ask the
    store more often. Whoever has waited asks ``call.check_again`` before anything is answered.
    """

    def __init__(self, call: Call[Any, Any]) -> None:
        self._call = call
        self._is_over = False
        self._looking: asyncio.Task[None] | None = None

    def is_off(self) -> bool:
        """Tell whether there is no use in waiting on."""
        return self._is_over or self._call.is_off()

    async def __aenter__(self) -> TokenWatch:
        self._looking = asyncio.get_running_loop().create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._looking is not None
        self._looking.cancel()
        # Not awaited itself: that it was cancelled is no news, that we are is.
        await asyncio.wait({self._looking})

    async def _look(self) -> None:
        clock = self._call.session.clock
        while not self._is_over:
            await clock.sleep_async(TOKEN_RECHECK_SECONDS)
            try:
                await self._call.recheck()
            except FencepostError:
                self._is_over = True

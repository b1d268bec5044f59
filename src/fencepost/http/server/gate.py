"""What every request of a server passes before the API: is its head small enough, does it end?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import chain
from typing import Any

from fencepost.clock import Clock
from fencepost.core.values.ids import id_text
from fencepost.errors import FencepostError, UnknownOutcomeError
from fencepost.http.request.endpoint import refusal, respond
from fencepost.http.request.read import headers_of, request_id_of
from fencepost.http.server.connection import head_too_large
from fencepost.observe import names
from fencepost.observe.log import log

LINE_OVERHEAD = 4
"""A colon, a space and the end of the line."""


class Gate:
    """The API as a server of ours serves it.

    Of *direct*, paths without a parameter lead to their endpoint past Starlette: its middleware
    catches what endpoints catch themselves, and costs a fifth of a submission.
    """

    def __init__(
        self,
        api: Any,
        clock: Clock,
        *,
        head_max: int,
        direct: Mapping[tuple[str, str], Any] | None = None,
    ) -> None:
        self._api = api
        self._direct = direct or {}
        self._clock = clock
        self._head_max = head_max

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
        elif head_size(scope) > self._head_max:
            await self._refuse(scope, send, head_too_large(self._head_max))
        else:
            await self._pass(scope, receive, send)

    async def _pass(self, scope: Any, receive: Any, send: Any) -> None:
        has_started = False

        async def watched(message: Any) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        served = self._direct.get((scope["method"], scope["path"]), self._api)
        try:
            await served(scope, receive, watched)
        except asyncio.CancelledError:
            # The server stops, and this took longer than its grace.
            if not has_started:
                await self._refuse(scope, send, _cut_off())
        except Exception as error:
            # What the endpoints catch does not come here: this is a bug on the way to them.
            kind = type(error).__qualname__
            log(names.HTTP_ERROR, level=logging.ERROR, route="", request_id=None, error=kind)
            raise

    async def _refuse(self, scope: Any, send: Any, error: FencepostError) -> None:
        request_id = request_id_of(headers_of(scope)) or id_text(self._clock.new_id())
        await respond(send, refusal(error, request_id), request_id)


def head_size(scope: Any) -> int:
    """Return how long the first line and the headers of a request were, or nearly."""
    headers = scope["headers"]
    texts = sum(map(len, chain.from_iterable(headers))) + LINE_OVERHEAD * len(headers)
    return texts + len(scope["raw_path"]) + len(scope["query_string"])


def _cut_off() -> UnknownOutcomeError:
    return UnknownOutcomeError(
        "the server stopped before this was answered; it may have been done: ask again, with the "
        "same idempotency key if there was one"
    )

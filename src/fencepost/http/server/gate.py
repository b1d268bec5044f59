"""What every request to a server passes before the API: a limit on its head, and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import chain
from typing import Any

from fencepost.clock import Clock
from fencepost.core.values.names import id_text
from fencepost.errors import FencepostError, UnknownOutcomeError
from fencepost.http.request.endpoint import refusal, respond
from fencepost.http.request.read import IS_LOST, headers_of, request_id_of
from fencepost.http.server.connection import CURRENT, Connection, head_too_large
from fencepost.observe import names
from fencepost.observe.log import log

LINE_OVERHEAD = 4
"""A colon, a space and the end of the line."""
CLOSE = (b"connection", b"close")


class Gate:
    """The API as our own server serves it.

    Paths without a parameter lead straight to their endpoint in *direct*, past Starlette: its
    middleware catches what endpoints catch themselves, and costs a fifth of a submission.
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
        self.tasks: set[asyncio.Task[Any]] = set()
        """What answers requests now."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        connection, task = CURRENT.get(), asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        if connection is not None:
            scope[IS_LOST] = connection.is_lost
            connection.request_started()
        try:
            await self._pass(scope, receive, ResponseSender(send, connection))
            if connection is not None and connection.is_hung_up:
                # We have refused it ourselves; uvicorn would now miss an answer.
                await connection.wait_lost()
        finally:
            self.tasks.discard(task)
            if connection is not None:
                connection.request_ended()

    async def _pass(self, scope: Any, receive: Any, answer: ResponseSender) -> None:
        if head_size(scope) > self._head_max:
            await self._refuse(scope, answer, head_too_large(self._head_max))
            return
        served = self._direct.get((scope["method"], scope["path"]), self._api)
        try:
            await served(scope, receive, answer)
        except asyncio.CancelledError:
            # The server stops, and this took longer than its grace.
            if not answer.has_started:
                await self._refuse(scope, answer, _cut_off())
        except Exception as error:
            # Endpoints catch what goes wrong in them: this is a bug on the way to them.
            kind = type(error).__qualname__
            log(names.HTTP_ERROR, level=logging.ERROR, route="", request_id=None, error=kind)
            raise

    async def _refuse(self, scope: Any, answer: ResponseSender, error: FencepostError) -> None:
        request_id = request_id_of(headers_of(scope)) or id_text(self._clock.new_id())
        await respond(answer, refusal(error, request_id), request_id)


class ResponseSender:
    """Passes a response on, and closes its connection with it where no other may follow."""

    __slots__ = ("_connection", "_send", "has_started")

    def __init__(self, send: Any, connection: Connection | None) -> None:
        self._send = send
        self._connection = connection
        self.has_started = False

    async def __call__(self, message: Any) -> None:
        connection = self._connection
        if connection is not None:
            if connection.is_hung_up:
                return
            if not self.has_started and connection.answer_started():
                message = {**message, "headers": [*message["headers"], CLOSE]}
        self.has_started = True
        try:
            await self._send(message)
        except RuntimeError:
            # uvicorn reports a lost client only to the last of several requests that were sent at
            # once, and uvloop refuses what is written to a closed connection.
            if connection is None or not connection.is_lost():
                raise


def head_size(scope: Any) -> int:
    """Return about how long the first line and the headers of a request were."""
    headers = scope["headers"]
    texts = sum(map(len, chain.from_iterable(headers))) + LINE_OVERHEAD * len(headers)
    return texts + len(scope["raw_path"]) + len(scope["query_string"])


def _cut_off() -> UnknownOutcomeError:
    return UnknownOutcomeError(
        "the server stopped before it answered; the request may have been carried out: repeat it, "
        "with the same idempotency key if there was one"
    )

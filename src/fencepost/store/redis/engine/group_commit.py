"""Group commit of awaited submissions: what is posted while one call is under way shares the next.

There is one for each event loop. The jobs of a group are stored by one script, all or nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from fencepost.core.bounds import GROUP_MAX

T = TypeVar("T")


class SubmissionGroup(Generic[T]):
    """Posted statements of one kind, sent together by *send*, which returns one answer for all."""

    def __init__(self, send: Callable[[Sequence[T]], Awaitable[Any]]) -> None:
        self._send = send
        self._posted: list[tuple[T, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def post(self, statement: T) -> Any:
        """Return the answer; one that is cancelled before it was sent is not sent."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._posted.append((statement, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._serve())
        return await future

    async def _serve(self) -> None:
        while self._posted:
            posted, self._posted = self._posted[:GROUP_MAX], self._posted[GROUP_MAX:]
            group = [each for each in posted if not each[1].cancelled()]
            if not group:
                continue
            try:
                answer = await self._send([statement for statement, _ in group])
            except BaseException as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(_for_caller(error))
                if not isinstance(error, Exception):
                    raise
            else:
                for _, future in group:
                    if not future.done():
                        future.set_result(answer)


def _for_caller(error: BaseException) -> BaseException:
    """Return an error for one caller: each raises its own, with a traceback of its own."""
    with suppress(Exception):
        copy = type(error)(*error.args)
        copy.__cause__ = error.__cause__
        return copy
    return error

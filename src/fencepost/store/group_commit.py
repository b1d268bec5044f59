"""Operations posted from event loops to threads, and their answers on the way back."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.store.plan import Operation


class Posted(NamedTuple):
    """An operation, and the future that its caller awaits."""

    operation: Operation[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Answer(NamedTuple):
    """The result of a posted operation."""

    posted: Posted
    result: Any
    error: BaseException | None


def drain(queue: deque[Any], limit: int) -> list[Any]:
    """Take what *queue* holds now, up to *limit*; other threads may be taking too."""
    taken: list[Any] = []
    try:
        while len(taken) < limit:
            taken.append(queue.popleft())
    except IndexError:
        pass
    return taken


def deliver(answers: Sequence[Answer]) -> None:
    """Resolve the futures of *answers*, waking each loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_loop[answer.posted.loop].append(answer)
    for loop, batch in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, batch)
        except RuntimeError:
            continue  # the loop was closed: nothing waits for the answer any more


def _resolve(answers: Sequence[Answer]) -> None:
    for (_, future, _), result, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

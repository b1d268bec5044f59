"""Health: is the process alive, and can it serve?"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from fencepost.core.limits import HTTP_READY_TIMEOUT
from fencepost.errors import FencepostError
from fencepost.http.call import Call, Nothing, Reply
from fencepost.http.problems import HttpError


class Health(msgspec.Struct, frozen=True):
    """What the process says of itself."""

    status: str


async def live(_: Call[Nothing, Nothing]) -> Reply:
    """Answer, which only a process can whose event loop turns."""
    return Reply(Health("live"))


async def ready(call: Call[Nothing, Nothing]) -> Reply:
    """Tell whether requests can be served: the store answers, and we are not about to stop."""
    if call.api.is_stopping:
        raise _not_ready("this server is stopping")
    try:
        async with asyncio.timeout(HTTP_READY_TIMEOUT):
            await _look(call)
    except TimeoutError:
        raise _not_ready(f"the store did not answer within {HTTP_READY_TIMEOUT:g} s") from None
    except FencepostError as error:
        raise _not_ready(f"the store is away: {error.code}") from None
    return Reply(Health("ready"))


async def _look(call: Call[Any, Any]) -> None:
    store = call.session.store
    await store.run_async(store.app_limit())


def _not_ready(why: str) -> HttpError:
    return HttpError(why, status=503, code="not_ready", headers={"retry-after": "1"})

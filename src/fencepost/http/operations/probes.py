"""Health: is the process alive, and can it serve?"""

from __future__ import annotations

import msgspec

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
    found = await call.api.readiness.check(is_stopping=call.api.is_stopping)
    if not found.is_ok:
        raise _not_ready("; ".join(found.reasons))
    return Reply(Health("ready"))


def _not_ready(why: str) -> HttpError:
    return HttpError(why, status=503, code="not_ready", headers={"retry-after": "1"})

"""What a process says of itself: is it alive, can it serve, what does it count, what is its API?"""

from __future__ import annotations

from functools import cache

import msgspec

from fencepost.actions.metrics import metrics_text
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.observe import families
from fencepost.observe.exposition import CONTENT_TYPE, gauge
from fencepost.wire.stats import Health


async def live(_: Call[Nothing, Nothing]) -> Reply:
    """Answer, which only a process can whose event loop turns."""
    return Reply(Health("live"))


async def ready(call: Call[Nothing, Nothing]) -> Reply:
    """Tell whether requests can be served: the store answers, and we are not about to stop."""
    verdict = await call.api.readiness.check(is_stopping=call.api.is_stopping)
    if not verdict.is_ok:
        why = "; ".join(verdict.reasons)
        raise HttpError(why, status=503, code="not_ready", headers={"retry-after": "1"})
    return Reply(Health("ready"))


async def get_metrics(call: Call[Nothing, Nothing]) -> Reply:
    """Return what this process has counted and what the store holds, for Prometheus."""
    verdict = await call.api.readiness.check(is_stopping=call.api.is_stopping)
    health = [gauge(families.LIVE, {(): 1}), gauge(families.READY, {(): verdict.is_ok})]
    return Reply(await metrics_text(call.session, health), media_type=CONTENT_TYPE)


async def get_document(_: Call[Nothing, Nothing]) -> Reply:
    """Return this document."""
    return Reply(_document())


@cache
def _document() -> bytes:
    # Nobody pays for it before it is asked for; nor does the route table know itself.
    from fencepost.http.openapi.document import document
    from fencepost.http.routes import ROUTES

    return msgspec.json.encode(document(ROUTES))

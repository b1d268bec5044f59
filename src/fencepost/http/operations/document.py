"""The document of the API, for people, clients that are generated, and fuzzers."""

from __future__ import annotations

from functools import cache

import msgspec

from fencepost.http.request.call import Call, Nothing, Reply


async def get_document(_: Call[Nothing, Nothing]) -> Reply:
    """Return this document."""
    return Reply(_document())


@cache
def _document() -> bytes:
    # Nobody pays for it before it is asked for; nor does the route table know itself.
    from fencepost.http.openapi.document import document
    from fencepost.http.routes import ROUTES

    return msgspec.json.encode(document(ROUTES))

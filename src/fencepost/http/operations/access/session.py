"""Who sends a request, and sessions: a browser exchanges a token for a cookie."""

from __future__ import annotations

from typing import Any, Literal

from fencepost import __version__
from fencepost.core.access.bounds import TOKEN_ID_BYTES, TOKEN_SECRET_BYTES
from fencepost.core.access.sessions import make_session
from fencepost.core.access.tokens import Principal, Role
from fencepost.errors import StoreError
from fencepost.http.cookies import set_cookie
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.route import ANYBODY, route
from fencepost.wire.access import Me, SessionBody, StoreView

ANY_ROLE = tuple(Role)


@route("GET /v1/me", "See who you are, and what you may do", Me, roles=ANY_ROLE)
async def get_me(call: Call[Nothing, Nothing]) -> Reply:
    """Return the name, roles and queues of the token, and what server and store this is."""
    return Reply(await _me(call, call.principal))


@route("POST /v1/session", "Exchange a token for a cookie", Me, "unauthenticated", roles=ANYBODY)
async def open_session(call: Call[SessionBody, Nothing]) -> Reply:
    """Open a session for a browser, with the rights of a token; it ends with the token."""
    session, api = call.session, call.api
    token = await api.authenticator.token_of(call.body.token)
    raw = session.clock.new_bytes(TOKEN_ID_BYTES + TOKEN_SECRET_BYTES)
    opened = make_session(token, raw, session.clock.now())
    await session.store.run_async(session.store.access.open_session(opened.record))
    api.authenticator.forget()
    seconds = (opened.record.expires_at - opened.record.created_at).total_seconds()
    principal = Principal.of(token, session=opened.record)
    cookie = set_cookie(call.scope, opened.text, seconds)
    return Reply(await _me(call, principal), headers={"set-cookie": cookie})


@route("DELETE /v1/session", "End the session", None, roles=ANY_ROLE, replies={204: None})
async def close_session(call: Call[Nothing, Nothing]) -> Reply:
    """End the session of the cookie, everywhere; without one, nothing happens."""
    session_id, store = call.principal.session_id, call.session.store
    if session_id is not None:
        await store.run_async(store.access.close_session(session_id))
        call.api.authenticator.forget()
    return Reply(None, 204, {"set-cookie": set_cookie(call.scope, "")})


async def _me(call: Call[Any, Any], principal: Principal) -> Me:
    app = call.api.app
    return Me(
        name=principal.name,
        token_id=principal.token_id,
        by=_way_of(principal),
        roles=[role for role in Role if role in principal.roles],
        queues=None if principal.queues is None else sorted(principal.queues),
        expires_at=principal.expires_at,
        app=app.name,
        version=__version__,
        store=StoreView(
            engine=call.session.store.url.partition(":")[0].partition("+")[0],
            durability=await _durability(call),
        ),
        at=call.session.clock.now(),
    )


def _way_of(principal: Principal) -> Literal["token", "session", "local"]:
    if principal.session_id is not None:
        return "session"
    return "local" if principal.token_id is None else "token"


async def _durability(call: Call[Any, Any]) -> str | None:
    """Return what the store says of its durability; it does not matter enough to fail."""
    try:
        findings = await call.api.findings.read()
    except StoreError:
        return None
    return next((each.text for each in findings if each.code == "durability"), None)

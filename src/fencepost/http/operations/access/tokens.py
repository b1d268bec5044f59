"""Tokens over HTTP, for administrators: list, create and revoke them."""

from __future__ import annotations

from fencepost.core.access.bounds import TOKEN_ID_BYTES, TOKEN_SECRET_BYTES
from fencepost.core.access.tokens import TokenRecord, make_options, make_token
from fencepost.errors import TokenNotFoundError
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.route import ADMIN, store_action, store_route
from fencepost.wire.access import CreatedToken, NewTokenBody, TokenView, WireTokens
from fencepost.wire.bodies import shown_as


@store_route("GET /v1/tokens", "List the tokens", WireTokens, roles=ADMIN)
async def list_tokens(call: Call[Nothing, Nothing]) -> Reply:
    """Return every token, the oldest first; those too that were revoked or have expired."""
    records: list[TokenRecord] = await call.run(call.actions.tokens.all())
    return Reply(WireTokens([shown_as(TokenView, record) for record in records]))


@store_action(
    "POST /v1/tokens",
    "token.create",
    "Create a token",
    CreatedToken,
    "invalid_duration",
    roles=ADMIN,
    status=201,
)
async def create_token(call: Call[NewTokenBody, Nothing]) -> Reply:
    """Create a token, whose text is shown only now; if no reply comes, revoke it and try again."""
    body, session = call.body, call.session
    options = make_options(
        body.name, body.roles, queues=body.queues, expires=body.expires, rate=body.rate
    )
    raw = session.clock.new_bytes(TOKEN_ID_BYTES + TOKEN_SECRET_BYTES)
    token = make_token(options, raw, session.clock.now())
    call.detail |= {
        "id": token.record.id,
        "name": options.name,
        "roles": options.roles,
        "queues": options.queues,
        "expires_at": token.record.expires_at,
    }
    await session.store.run_async(session.store.access.add(token.record))
    call.api.authenticator.forget()
    made = shown_as(CreatedToken, token.record, token=token.text)
    return Reply(made, 201, {"location": f"/v1/tokens/{token.record.id}"})


@store_action(
    "DELETE /v1/tokens/{id}",
    "token.revoke",
    "Revoke a token",
    None,
    "token_not_found",
    roles=ADMIN,
)
async def revoke_token(call: Call[Nothing, Nothing]) -> Reply:
    """Make a token invalid, with its sessions; within 5 s it is refused everywhere."""
    token_id, store = call.path["id"], call.session.store
    if not await store.run_async(store.access.revoke(token_id)):
        raise TokenNotFoundError(token_id)
    call.api.authenticator.forget()
    return Reply(None, 204)

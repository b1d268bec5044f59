"""A route as an ASGI application: authenticate, authorise, read, run, answer and log."""

from __future__ import annotations

import logging
import math
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fencepost.actions.local.access import begin
from fencepost.core.access.audit import Action, bounded, make_action
from fencepost.core.access.bounds import TOKEN_RECHECK_SECONDS
from fencepost.core.access.tokens import Principal
from fencepost.core.values.names import id_text
from fencepost.errors import (
    FencepostError,
    ForbiddenError,
    StoreError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from fencepost.http.request import problems
from fencepost.http.request.call import Call, Nothing, Reply, Streamed
from fencepost.http.request.problems import HttpError, problem_of, retry_after_of
from fencepost.http.request.read import (
    Headers,
    Inbox,
    announced,
    check_media_type,
    headers_of,
    readers,
    request_id_of,
    text_of,
)
from fencepost.http.request.route import Route
from fencepost.http.roles import RoleCheck
from fencepost.http.scope import withheld
from fencepost.http.server.bodies import HeldBytes
from fencepost.http.server.framing import is_plain
from fencepost.observe import names
from fencepost.observe.counters import Key, key_of
from fencepost.observe.log import log, logger
from fencepost.wire.bounds import HTTP_BODY_MAX

if TYPE_CHECKING:
    from fencepost.http.api import Api

_encode = msgspec.json.Encoder().encode
_NOTHING = Nothing()

NOTHING_HERE = "there is no such path; /openapi.json lists all paths"
FIXED_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


class Endpoint:
    """Answers the requests of one route."""

    def __init__(self, route: Route, api: Api) -> None:
        self.route = route
        self._api = api
        self._query, self._body = readers(route)
        self._body_max = api.body_max(route)
        self._roles = RoleCheck(route)
        self._counted: dict[int, tuple[Key, Key]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        held = HeldBytes(self._api.bodies)
        try:
            await self._serve(scope, Inbox(scope, receive, held), send)
        finally:
            held.give_back()

    async def _serve(self, scope: Any, inbox: Inbox, send: Any) -> None:
        clock = self._api.app.session.clock
        start = clock.monotonic()
        headers = headers_of(scope)
        request_id = request_id_of(headers) or self._api.new_request_id()
        principal: Principal | None = None
        call: Call[Any, Any] | None = None
        action: Action | None = None
        refused: FencepostError | None = None
        try:
            check_path(scope)
            principal = await self._known(scope)
            self._roles.check(principal)
            call = await self._read(scope, headers, inbox, principal, request_id)
            if clock.monotonic() - start >= TOKEN_RECHECK_SECONDS:
                await call.check_again()  # the token may have been revoked while the body came
                principal = call.principal
            action = self._begin(call)
            reply = _from(scope, await self.route.operation(call))
        except FencepostError as error:
            self._log_store_error(error, request_id)
            refused = error
            reply = refusal(error if call is None else await withheld(call, error), request_id)
            _let_go(error)
        except Exception as error:  # noqa: BLE001 - the edge: a client must get an answer to a bug too
            reply = self._bug(error, request_id)
        try:
            if refused is not None and self._is_on_record(refused):
                whose = principal or _NOBODY
                tried = self._tried(scope, whose, action, request_id)
                detail = {**({} if call is None else call.detail), **_reason(refused)}
                tried = replace(tried, detail=bounded(detail))
                await self._api.auditor.refuse(whose, tried, _status(reply))
            elif call is not None and action is not None:
                ended = replace(action, detail=bounded(call.detail))
                await self._api.auditor.end(ended, _status(reply))
            await respond(send, reply, request_id, is_head=scope["method"] == "HEAD")
        finally:
            inbox.close()
            if isinstance(reply, Streamed):
                reply.close()
            self._note(scope, principal, reply, request_id, clock.monotonic() - start)

    async def _allowed(self, scope: Any, *, is_repeated: bool = False) -> Principal:
        """Return who sent a request, or raise if they may not."""
        principal = await self._known(scope, is_repeated=is_repeated)
        self._roles.check(principal)
        return principal

    async def _known(self, scope: Any, *, is_repeated: bool = False) -> Principal:
        """Return who sent a request, or raise if the token is invalid."""
        if not self.route.roles:
            return _ANYBODY
        return await self._api.authenticator.admit(
            scope["headers"], method=scope["method"], is_repeated=is_repeated
        )

    def _is_on_record(self, error: FencepostError) -> bool:
        """Return whether *error* refuses an operator's action, rather than a failure of it.

        A rate limit does not refuse the action: the same request succeeds later.
        """
        is_other = isinstance(error, StoreError | TooManyRequestsError)
        return self.route.action is not None and not is_other

    def _tried(
        self, scope: Any, principal: Principal, action: Action | None, request_id: str
    ) -> Action:
        """Return the action that was refused, possibly before it was logged."""
        if action is not None:
            return action
        assert self.route.action is not None
        path: dict[str, str] = scope.get("path_params", {})
        return make_action(
            principal,
            self.route.action,
            id=id_text(self._api.app.session.clock.new_id()),
            target=path.get("id") or path.get("name") or "",
            request_id=request_id,
        )

    def _begin(self, call: Call[Any, Any]) -> Action | None:
        """Log an operator's action before it is tried."""
        if self.route.action is None:
            return None
        return begin(
            self._api.app.session,
            call.principal,
            self.route.action,
            target=call.path.get("id") or call.path.get("name") or "",
            request_id=call.request_id,
        )

    async def _read(
        self, scope: Any, headers: Headers, inbox: Inbox, principal: Principal, request_id: str
    ) -> Call[Any, Any]:
        query = self._query.read(scope["query_string"])
        body, size = await self._read_body(headers, inbox)
        return Call(
            api=self._api,
            principal=principal,
            request_id=request_id,
            path=scope.get("path_params", {}),
            query=query,
            body=body,
            size=size,
            is_gone=inbox.is_gone,
            listen=inbox.listen,
            recheck=lambda: self._allowed(scope, is_repeated=True),
            headers={name: text_of(headers, name.encode()) for name in self.route.headers},
            scope=scope,
        )

    async def _read_body(self, headers: Headers, inbox: Inbox) -> tuple[Any, int]:
        """Return the decoded body and its size."""
        limit = self._body_max
        self._api.bodies.check(announced(headers, limit))
        data = await inbox.body(limit)
        body = await self._decode(headers, data)
        if limit <= HTTP_BODY_MAX:
            # Its bytes are not kept, and a claim may wait for a minute from here.
            inbox.held.give_back()
        return body, len(data)

    async def _decode(self, headers: Headers, data: bytes) -> Any:
        reader = self._body
        if reader is None:
            if data.strip() not in (b"", b"{}"):  # many clients send an empty object unasked
                raise HttpError("this route takes no body")
            return _NOTHING
        if not data and self.route.is_body_optional:
            return reader.read(b"{}")
        check_media_type(headers)
        return await self._api.aside.run(len(data), lambda: reader.read(data))

    def _log_store_error(self, error: FencepostError, request_id: str) -> None:
        """Log the message of a store, which the client does not get."""
        if isinstance(error, StoreError):
            log(
                names.STORE_UNAVAILABLE,
                level=logging.WARNING,
                during=self.route.name,
                request_id=request_id,
                error=str(error),
            )

    def _bug(self, error: Exception, request_id: str) -> Reply:
        log(
            names.HTTP_ERROR,
            level=logging.ERROR,
            route=self.route.path,
            request_id=request_id,
            error=type(error).__qualname__,
        )
        # The traceback is logged; the client does not get the text, which may hold anything.
        logging.getLogger("fencepost").debug("traceback", exc_info=error)
        unexpected = HttpError(
            "internal error; the server's log has it by request id",
            code="internal_error",
        )
        return refusal(unexpected, request_id)

    def _note(
        self,
        scope: Any,
        principal: Principal | None,
        reply: Reply | Streamed,
        request_id: str,
        seconds: float,
    ) -> None:
        status = _status(reply)
        count, duration = self._counted.get(status) or self._keys(status)
        self._api.app.session.counters.add_all(((count, 1), (duration, seconds)))
        level = logging.WARNING if status >= 500 else logging.DEBUG
        if not logger.isEnabledFor(level):
            return
        log(
            names.HTTP_REQUEST,
            level=level,
            method=scope["method"],
            route=self.route.path,
            status=status,
            seconds=seconds,
            token=None if principal is None else principal.token_id,
            request_id=request_id,
        )

    def _keys(self, status: int) -> tuple[Key, Key]:
        """Return the keys of the counters of requests with this status, and of their seconds."""
        path = self.route.path
        keys = (
            key_of(names.HTTP_REQUEST, route=path, status=str(status)),
            key_of(names.HTTP_REQUEST_SECONDS, route=path),
        )
        self._counted[status] = keys
        return keys


def check_path(scope: Any) -> None:
    """Raise HttpError for a path with encoded slashes or control characters."""
    if not is_plain(scope["path"], scope.get("raw_path") or b""):
        raise HttpError(NOTHING_HERE, code="not_found")


def _from(scope: Any, reply: Reply | Streamed) -> Reply | Streamed:
    """Return *reply* with its location below the path at which the API is mounted."""
    root: str = scope.get("root_path", "")
    if not root or "location" not in reply.headers:
        return reply
    return replace(reply, headers={**reply.headers, "location": root + reply.headers["location"]})


def _reason(error: FencepostError) -> dict[str, str]:
    """Return why an action was refused; messages about access quote only names."""
    if isinstance(error, ForbiddenError | UnauthenticatedError):
        return {"refused": error.code, "why": str(error)}
    return {"refused": error.code}


_NOBODY = Principal(name="unknown", roles=frozenset())
_ANYBODY = Principal(name="anybody", roles=frozenset())


def _let_go(error: FencepostError) -> None:
    """Cut *error* off from the body of its request, which its traceback leads to.

    The traceback also leads back to the error. So a body of megabytes would stay in memory until
    the garbage collector comes by, long after the budget has counted it as gone.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None


def _status(reply: Reply | Streamed) -> int:
    return 200 if isinstance(reply, Streamed) else reply.status


def refusal(error: FencepostError, request_id: str) -> Reply:
    """Return the answer to a request that failed with *error*."""
    problem = problem_of(error, request_id)
    headers = dict(getattr(error, "headers", {}))
    if isinstance(error, UnauthenticatedError):
        headers["www-authenticate"] = error.challenge
    wait = retry_after_of(error)
    if wait is not None:
        headers["retry-after"] = str(max(1, math.ceil(wait)))
    return Reply(problem, problem.status, headers, problems.MEDIA_TYPE)


async def respond(
    send: Any, reply: Reply | Streamed, request_id: str, *, is_head: bool = False
) -> None:
    """Send *reply*."""
    if isinstance(reply, Streamed):
        await _stream(send, reply, request_id, is_head=is_head)
        return
    match reply.body:
        case None:
            data = b""
        case bytes() as data:
            pass
        case body:
            data = _encode(body)
    headers = [
        (b"content-length", str(len(data)).encode()),
        *_headers(reply.media_type if reply.body is not None else None, request_id),
        *_named(reply.headers),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else data})


def _named(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]


def _headers(media_type: str | None, request_id: str) -> list[tuple[bytes, bytes]]:
    named = [] if media_type is None else [(b"content-type", media_type.encode())]
    return [*named, (b"x-request-id", request_id.encode()), *FIXED_HEADERS]


async def _stream(send: Any, reply: Streamed, request_id: str, *, is_head: bool) -> None:
    headers = [*_headers(reply.media_type, request_id), *_named(reply.headers)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async with aclosing(reply.parts) as parts:
        async for part in parts:
            if is_head:
                break
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})

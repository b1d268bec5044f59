"""The API as one ASGI application, made of the route table."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from fencepost.actions.audit import Auditor
from fencepost.actions.readiness import Readiness
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import (
    HTTP_BATCH_BYTES_MAX,
    HTTP_BODIES_MAX,
    HTTP_BODY_MAX,
    QUEUES_INTERVAL,
)
from fencepost.core.stats.overview import QueueView
from fencepost.core.values.ids import id_text
from fencepost.http.auth.authentication import Authenticator
from fencepost.http.operations.claims import RemoteWorkers
from fencepost.http.request.call import Reply
from fencepost.http.request.endpoint import NOTHING_HERE, Endpoint, refusal, respond
from fencepost.http.request.offload import Aside
from fencepost.http.request.problems import HttpError
from fencepost.http.request.read import headers_of, request_id_of
from fencepost.http.routes.route import Route
from fencepost.http.server.bodies import Bodies
from fencepost.http.server.framing import is_plain

if TYPE_CHECKING:
    from fencepost.app import App

REQUEST_IDS = 256
"""Drawn at once: to ask the system for randomness takes longer than to read a request."""


class Api:
    """What the routes of one server share."""

    def __init__(
        self, app: App, *, is_local: bool = False, bodies_max: int = HTTP_BODIES_MAX
    ) -> None:
        self.app = app
        self.is_local = is_local
        """True when only this machine can ask: then no token is needed as long as none is made."""
        self.is_stopping = False
        self.auditor = Auditor(app.session)
        self.readiness = Readiness(app.session)
        self.bodies = Bodies(bodies_max, app.session.clock)
        self.aside = Aside()
        self.roll = RemoteWorkers()
        self.streams = 0
        self._queues: list[QueueView] = []
        self._queues_read_at = -math.inf
        self._authenticator = Authenticator(app.session, is_local=is_local)
        self._request_ids: list[bytes] = []

    async def identify(self, scope: Any, *, is_repeated: bool = False) -> Principal:
        """Return who asks, or raise; *is_repeated*: of a request that has been waiting."""
        return await self._authenticator.admit(scope["headers"], is_repeated=is_repeated)

    def new_request_id(self) -> str:
        """Return an id for a request that came without: drawn in advance, by the hundred."""
        if not self._request_ids:
            self._request_ids = self.app.session.clock.new_ids(REQUEST_IDS)
        return id_text(self._request_ids.pop())

    async def queues(self) -> list[QueueView]:
        """Return the queues as they were a moment ago: many streams show them."""
        session = self.app.session
        now = session.clock.monotonic()
        if now - self._queues_read_at >= QUEUES_INTERVAL:
            self._queues_read_at = now
            self._queues = await session.store.run_async(session.store.overview.queues())
        return self._queues

    def body_max(self, route: Route) -> int:
        """Return how large a body may be; one with a payload as large as the app allows those."""
        if route.body_max <= HTTP_BODY_MAX:
            return route.body_max
        # In base64, a payload takes four bytes for three.
        payload = self.app.session.max_payload * 4 // 3 + HTTP_BODY_MAX
        return max(payload, HTTP_BATCH_BYTES_MAX) if route.is_batch else payload


def asgi(app: App, *, is_local: bool = False, bodies_max: int = HTTP_BODIES_MAX) -> Starlette:
    """Return the API of *app*, to be served or mounted."""
    from fencepost.http.routes import ROUTES

    api = Api(app, is_local=is_local, bodies_max=bodies_max)
    endpoints = [Endpoint(route, api) for route in ROUTES]
    served = Starlette(
        routes=[
            StarletteRoute(_pattern(each.route.path), each, methods=[each.route.method])
            for each in endpoints
        ],
        exception_handlers={HTTPException: _refused},
    )
    served.state.api = api
    served.state.direct = {
        (each.route.method, each.route.path): each
        for each in endpoints
        if "{" not in each.route.path
    }
    served.router.redirect_slashes = False
    return served


class _Name(PathConvertor):
    """A name of anything, slashes included; what is no name is refused with a reason later."""

    regex = "(?s:.+)"


register_url_convertor("fencepost_name", _Name())


def _pattern(path: str) -> str:
    """Return a path as Starlette reads it: names may have slashes in them where that is clear."""
    named = r"{(name|queue)}(?=/)|{(queue)}$"
    return re.sub(named, lambda found: f"{{{found[1] or found[2]}:fencepost_name}}", path)


async def _refused(request: Request, error: Exception) -> Response:
    """Answer for paths that there are none of, and methods that a path has not."""
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed"}
    status = error.status_code
    if not is_plain(request.scope["path"], request.scope.get("raw_path") or b""):
        status = 404  # whatever the method: see ``check_path``
    problem = HttpError(
        NOTHING_HERE if status == 404 else error.detail,
        status=status,
        code=codes.get(status, "invalid_request"),
        headers={"allow": _methods(request)} if status == 405 else None,
    )
    api: Api = request.app.state.api
    request_id = request_id_of(headers_of(request.scope)) or api.new_request_id()
    reply = refusal(problem, request_id)
    return RefusalResponse(reply, request_id)


class RefusalResponse(Response):
    """An answer as the endpoints give them, for what never reaches one."""

    def __init__(self, reply: Reply, request_id: str) -> None:
        super().__init__(status_code=reply.status)
        self._reply = reply
        self._request_id = request_id

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_head = scope["method"] == "HEAD"
        await respond(send, self._reply, self._request_id, is_head=is_head)


def _methods(request: Request) -> str:
    """Return what can be done at a path, by all of its routes: Starlette knows of one at a time."""
    routes = [route for route in request.app.routes if isinstance(route, StarletteRoute)]
    paths = [r.path for r in routes if r.matches(request.scope)[0] is not Match.NONE]
    path = min(paths, key=lambda path: path.count("{"))  # /v1/jobs/count is not the job `count`
    methods = {each for route in routes if route.path == path for each in route.methods or ()}
    return ", ".join(sorted(methods))

"""The API as one ASGI application, made from the list of routes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from fencepost.actions.health import FindingCache, Readiness
from fencepost.actions.local.access import Auditor
from fencepost.core.stats.overview import QueueView
from fencepost.core.values.names import id_text
from fencepost.http.authentication import Authenticator
from fencepost.http.letters import LetterCache
from fencepost.http.operations.claims import RemoteWorkers
from fencepost.http.request.call import Aside
from fencepost.http.request.endpoint import NOTHING_HERE, Endpoint, refusal, respond
from fencepost.http.request.problems import HttpError
from fencepost.http.request.read import headers_of, request_id_of
from fencepost.http.request.route import Route
from fencepost.http.server.bodies import Bodies
from fencepost.http.server.framing import is_plain
from fencepost.wire.bounds import (
    HTTP_BATCH_BYTES_MAX,
    HTTP_BODIES_MAX,
    HTTP_BODY_MAX,
    HTTP_IDS_BODY_MAX,
    QUEUES_INTERVAL,
)

if TYPE_CHECKING:
    from fencepost.app import App

REQUEST_IDS = 256
"""Made at once: to get random bytes from the system takes longer than to read a request."""


class Api:
    """What all routes of a server share."""

    def __init__(
        self, app: App, *, is_local: bool = False, bodies_max: int = HTTP_BODIES_MAX
    ) -> None:
        self.app = app
        self.is_local = is_local
        """True when only this machine can reach it: then no token is needed while there is none."""
        self.is_stopping = False
        self.auditor = Auditor(app.session)
        self.readiness = Readiness(app.session)
        self.bodies = Bodies(bodies_max, app.session.clock)
        self.aside = Aside("bodies")
        self.figures = Aside("figures")
        self.findings = FindingCache(app.session)
        self.letters = LetterCache(app.session, self.figures)
        self.roll = RemoteWorkers()
        self.streams = 0
        self._queues: list[QueueView] = []
        self._queues_read_at = -math.inf
        self.authenticator = Authenticator(app.session, is_local=is_local)
        self._request_ids: list[bytes] = []

    def new_request_id(self) -> str:
        """Return an id for a request that came without one."""
        if not self._request_ids:
            self._request_ids = self.app.session.clock.new_ids(REQUEST_IDS)
        return id_text(self._request_ids.pop())

    async def queues(self) -> list[QueueView]:
        """Return the queues of a moment ago, read once for many streams."""
        session = self.app.session
        now = session.clock.monotonic()
        if now - self._queues_read_at >= QUEUES_INTERVAL:
            self._queues_read_at = now
            self._queues = await session.store.run_async(session.store.overview.queues())
        return self._queues

    def body_max(self, route: Route) -> int:
        """Return how large a body may be; with payloads, as large as the app allows those."""
        if route.body_max <= HTTP_IDS_BODY_MAX:
            return route.body_max
        # In base64, a payload takes four bytes for three.
        payload = self.app.session.max_payload * 4 // 3 + HTTP_BODY_MAX
        return max(payload, HTTP_BATCH_BYTES_MAX) if route.is_batch else payload


def asgi(
    app: App,
    *,
    is_local: bool = False,
    bodies_max: int = HTTP_BODIES_MAX,
    dashboard: bool = True,
) -> Starlette:
    """Return the API of *app*, to serve or mount, with the dashboard by default."""
    from fencepost.dashboard import dashboard_routes
    from fencepost.http.routes import ROUTES

    api = Api(app, is_local=is_local, bodies_max=bodies_max)
    endpoints = [Endpoint(route, api) for route in ROUTES]
    served = Starlette(
        routes=[
            *(
                StarletteRoute(_pattern(each.route.path), each, methods=[each.route.method])
                for each in endpoints
            ),
            *(dashboard_routes(api.new_request_id) if dashboard else ()),
        ],
        exception_handlers={HTTPException: _refused},  # type: ignore[dict-item]  # any app
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
    """A name, which may have slashes; invalid ones are refused later, with a reason."""

    regex = "(?s:.+)"


register_url_convertor("fencepost_name", _Name())


def _pattern(path: str) -> str:
    """Return a path as Starlette reads it; names may have slashes where that is unambiguous."""
    named = r"{(name|queue)}(?=/)|{(queue)}$"
    return re.sub(named, lambda found: f"{{{found[1] or found[2]}:fencepost_name}}", path)


async def _refused(request: Request, error: Exception) -> ASGIApp:
    """Answer for unknown paths, and for methods that a path does not have."""
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed"}
    status = error.status_code
    if not is_plain(request.scope["path"], request.scope.get("raw_path") or b""):
        status = 404  # for any method: see ``check_path``
    problem = HttpError(
        NOTHING_HERE if status == 404 else error.detail,
        status=status,
        code=codes.get(status, "invalid_request"),
        headers={"allow": _methods(request)} if status == 405 else None,
    )
    api: Api = request.app.state.api
    request_id = request_id_of(headers_of(request.scope)) or api.new_request_id()
    reply = refusal(problem, request_id)

    async def answer(scope: Any, _: Any, send: Any) -> None:
        await respond(send, reply, request_id, is_head=scope["method"] == "HEAD")

    return answer


def _methods(request: Request) -> str:
    """Return the methods of a path, from all its routes: Starlette knows one at a time."""
    routes = [route for route in request.app.routes if isinstance(route, StarletteRoute)]
    paths = [r.path for r in routes if r.matches(request.scope)[0] is not Match.NONE]
    path = min(paths, key=lambda path: path.count("{"))  # /v1/jobs/count is not the job `count`
    methods = {each for route in routes if route.path == path for each in route.methods or ()}
    return ", ".join(sorted(methods))

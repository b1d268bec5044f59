"""The paths of the dashboard: its pages, which are one document, and the files that it loads.

None of them needs a token: they are the same for everybody, and all data comes from ``/v1``. Only
the paths listed here are answered, so that a mistyped path of the API stays a 404.

Files are linked relative to the page (``../assets/…``). So it works below any prefix: one that an
application mounts it at, and one that a proxy strips and tells nobody of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import Route as StarletteRoute

from fencepost.dashboard.files import StaticFile, read_build
from fencepost.http.request.read import headers_of, request_id_of, text_of
from fencepost.http.server.framing import is_plain

PAGES = (
    "/",
    "/jobs",
    "/jobs/{id}",
    "/flows",
    "/flows/{id}",
    "/dead-letters",
    "/queues",
    "/workers",
    "/crons",
    "/events",
    "/tokens",
    "/audit",
    "/system",
)
ASSETS = "/assets/{name}"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No inline script or style, nothing from elsewhere, and no page around it."""

NOT_BUILT = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Fencepost</title></head>
<body>
<h1>The dashboard is not built</h1>
<p>The API works, and <a href="{up}openapi.json">openapi.json</a> describes it.</p>
<p>This is a checkout. To build the dashboard, run <code>make ui</code>, which needs Node.js 20.19
or newer with npm, and start the server again.</p>
</body>
</html>
"""


def dashboard_routes(new_request_id: Callable[[], str]) -> list[StarletteRoute]:
    """Return the routes of the pages and of their files."""
    served: dict[str, Callable[..., Any]] = {
        path: DashboardPage(path.count("/") - 1, new_request_id) for path in PAGES
    }
    served[ASSETS] = DashboardAsset(new_request_id)
    return [StarletteRoute(path, each, methods=["GET"]) for path, each in served.items()]


class DashboardPage:
    """Answers with the page, at a path *depth* folders below its root."""

    def __init__(self, depth: int, new_request_id: Callable[[], str]) -> None:
        self._up = "../" * depth or "./"
        self._new_request_id = new_request_id

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        check_plain(scope)
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"content-security-policy", POLICY.encode()),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
        ]
        await _send(scope, send, self._text().encode(), headers, self._new_request_id)

    def _text(self) -> str:
        build = read_build()
        if build is None:
            return NOT_BUILT.format(up=self._up)
        return build.page.replace('"./', f'"{self._up}')


class DashboardAsset:
    """Answers with a file of the build, which never changes under its name."""

    def __init__(self, new_request_id: Callable[[], str]) -> None:
        self._new_request_id = new_request_id

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        check_plain(scope)
        file = _asset(scope["path_params"]["name"])
        is_packed = b"gzip" in text_of(headers_of(scope), b"accept-encoding").encode()
        headers = [
            (b"content-type", file.media_type.encode()),
            (b"cache-control", b"public, max-age=31536000, immutable"),
            (b"vary", b"accept-encoding"),
            *([(b"content-encoding", b"gzip")] if is_packed else []),
        ]
        data = file.packed if is_packed else file.data
        await _send(scope, send, data, headers, self._new_request_id)


def check_plain(scope: Any) -> None:
    """Raise HTTPException for a path that a proxy could read differently, as the API does."""
    if not is_plain(scope["path"], scope.get("raw_path") or b""):
        raise HTTPException(404)


def _asset(name: str) -> StaticFile:
    """Return the file of this name, looked up and never opened: no path leads out of the build."""
    build = read_build()
    if build is None or name not in build.assets:
        raise HTTPException(404)
    return build.assets[name]


async def _send(
    scope: Any,
    send: Any,
    data: bytes,
    headers: list[tuple[bytes, bytes]],
    new_request_id: Callable[[], str],
) -> None:
    request_id = request_id_of(headers_of(scope)) or new_request_id()
    fixed = [
        (b"content-length", str(len(data)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-request-id", request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, *fixed]})
    is_head = scope["method"] == "HEAD"
    await send({"type": "http.response.body", "body": b"" if is_head else data})

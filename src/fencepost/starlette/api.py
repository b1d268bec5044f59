"""The HTTP API and the dashboard below a path of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from fencepost.app import App


def mount(
    site: Starlette,
    app: App,
    path: str = "/fencepost",
    *,
    dashboard: bool = True,
    name: str = "fencepost",
) -> None:
    """Serve the HTTP API of *app*, and the dashboard, below *path* of a Starlette or FastAPI site.

    Callers need a token, see ``fencepost tokens``; *path*``/health/ready`` needs none.
    """
    prefix = path.rstrip("/")
    if not prefix.startswith("/") or "{" in prefix:
        raise ConfigurationError(f"mount below a fixed path such as /queue, not {shown(path)}")
    site.mount(prefix, app.asgi(dashboard=dashboard), name=name)

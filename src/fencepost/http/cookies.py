"""The cookie that holds the session of a browser.

A cookie belongs to a host, not to a port. So that two servers on one machine do not sign each other
out, its name has the port that the browser used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fencepost.core.access.bounds import SESSION_SECONDS

NAME = "fencepost_session"
SAFE_METHODS = frozenset(["GET", "HEAD", "OPTIONS"])
_PORT = re.compile(r":([0-9]{1,5})$")


def cookie_name(host: str) -> str:
    """Return the name of the cookie for requests with this ``Host``."""
    port = _PORT.search(host)
    return NAME if port is None else f"{NAME}_{port[1]}"


def session_in(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """Return what the cookie of a request holds, valid or not; None if it has none, or two."""
    cookies, host = [], ""
    for name, value in headers:
        if name == b"cookie":
            cookies += value.decode("latin-1").split(";")
        elif name == b"host":
            host = value.decode("latin-1")
    if not cookies:
        return None
    wanted = cookie_name(host)
    pairs = (each.strip().partition("=") for each in cookies)
    found = [value for name, _, value in pairs if name == wanted]
    return found[0] if len(found) == 1 else None


def set_cookie(scope: dict[str, object], text: str, seconds: float = SESSION_SECONDS) -> str:
    """Return the header that keeps a session in the browser; with no text, one that removes it."""
    headers: Sequence[tuple[bytes, bytes]] = scope["headers"]  # type: ignore[assignment]  # ASGI
    host = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
    parts = [
        f"{cookie_name(host)}={text}",
        f"Path={scope.get('root_path') or '/'}",
        f"Max-Age={int(seconds) if text else 0}",
        "HttpOnly",
        "SameSite=Strict",
    ]
    if scope.get("scheme") == "https":
        parts.append("Secure")
    return "; ".join(parts)

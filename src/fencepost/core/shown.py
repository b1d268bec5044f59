"""How values are shown to people: bounded, and without secrets."""

from __future__ import annotations

import re

from fencepost.core.limits import SHOWN_LENGTH_MAX

MASK = "***"

# To the last @: a password that holds one unescaped must not be shown by half.
_PASSWORD = re.compile(r"(?<=//)([^:/?#@]*):.*@", re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# Whoever forgot the scheme, or a slash of it, has typed the password all the same.
_BARE_PASSWORD = re.compile(r"^([^:@]*):.*@", re.DOTALL)
# A URL to listen on is percent-encoded, its password with it.
_SECRET = re.compile(r"\b(password|sslpassword|listen)=[^&]*")


def shown(value: object) -> str:
    """Return *value* as ``repr`` does, cut to a bound; its type if it cannot be shown."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of more than 4,300 digits, or a list in itself
        return f"<{type(value).__qualname__}, too large to show>"
    return shortened(text)


def shortened(text: str) -> str:
    """Return *text*, which may repeat what somebody wrote, cut to a bound."""
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}…"


def shown_url(url: str) -> str:
    """Return *url*, which may not even be one, without what could be a password."""
    password = _PASSWORD if _SCHEME.match(url) else _BARE_PASSWORD
    return _SECRET.sub(rf"\1={MASK}", password.sub(rf"\1:{MASK}@", url))

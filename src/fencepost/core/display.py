"""How values are shown to people: bounded, and without secrets."""

from __future__ import annotations

import re

from fencepost.core.bounds import SHOWN_LENGTH_MAX

MASK = "***"

# To the last @: a password that holds one unescaped must not be shown by half.
_PASSWORD = re.compile(r"(?<=//)([^:/?#@]*):.*@", re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# Whoever forgot the scheme, or a slash of it, has typed the password all the same.
_BARE_PASSWORD = re.compile(r"^([^:@]*):.*@", re.DOTALL)
_BEYOND_ASCII = re.compile(r"[^\n -~]+")
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


def printable(text: str) -> str:
    """Return *text* as one line that cannot steer a terminal, whoever wrote it.

    What is not printable is shown as Python writes it: line ends, controls (C0, C1, DEL), marks
    that turn the direction of text, separators other than the space.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_json(text: str) -> str:
    """Return a JSON document that says the same, with nothing in it that is not printable.

    Line ends of the document stay; those in its strings are escaped already, as JSON has it.
    """
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return "".join(c if c.isprintable() else _units(c) for c in found[0])


def _units(character: str) -> str:
    """Return a character as JSON escapes it: one unit of UTF-16, or two."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def shown_url(url: str) -> str:
    """Return *url*, which may not even be one, without what could be a password."""
    password = _PASSWORD if _SCHEME.match(url) else _BARE_PASSWORD
    return _SECRET.sub(rf"\1={MASK}", password.sub(rf"\1:{MASK}@", url))

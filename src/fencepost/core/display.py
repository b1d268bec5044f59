"""How values are shown to people: bounded, at a glance, and without secrets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from fencepost.core.bounds import SHOWN_LENGTH_MAX

MASK = "***"

# To the last @: a password may contain one that is not escaped.
_PASSWORD = re.compile(r"(?<=//)([^:/?#@]*):.*@", re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# Without a scheme, or with one slash only, there may still be a password.
_BARE_PASSWORD = re.compile(r"^([^:@]*):.*@", re.DOTALL)
_BEYOND_ASCII = re.compile(r"[^\n -~]+")
# The URL of a listener is percent-encoded, and its password with it.
_SECRET = re.compile(r"\b(password|sslpassword|sentinel_password|listen)=[^&]*")


def shown(value: object) -> str:
    """Return *value* as ``repr`` does, cut to a bound; its type if it cannot be shown."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of more than 4,300 digits, or a list in itself
        return f"<{type(value).__qualname__}, too large to show>"
    return shortened(text)


def shortened(text: str) -> str:
    """Return *text*, which may repeat a user's input, cut to a bound."""
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}…"


def amount(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 job", "2 jobs"; *many* if that is not *one* and an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question that ends a message about *name*; empty if no other name is like it."""
    close = difflib.get_close_matches(name, sorted({*names} - {name}), 1)
    return f"; did you mean {shown(close[0])}?" if close else ""


def printable(text: str) -> str:
    """Return *text* as one line without control sequences for a terminal.

    Line ends, controls (C0, C1, DEL), marks that change the direction of text and separators other
    than the space are written as Python escapes.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_json(text: str) -> str:
    """Return the same JSON document with all that is not printable escaped, except line ends."""
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return "".join(c if c.isprintable() else _units(c) for c in found[0])


def _units(character: str) -> str:
    """Return a character as JSON escapes it: one unit of UTF-16, or two."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def shown_url(url: str) -> str:
    """Return *url*, which may be invalid, without anything that could be a password."""
    password = _PASSWORD if _SCHEME.match(url) else _BARE_PASSWORD
    return _SECRET.sub(rf"\1={MASK}", password.sub(rf"\1:{MASK}@", url))


UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def relative(at: datetime, now: datetime) -> str:
    """Return how far *at* is from *now*, such as ``3 s ago`` and ``in 2 min``."""
    seconds = int(abs((at - now).total_seconds()))
    if seconds == 0:
        return "now"
    # From two of a unit on: "119 s" says more than "1 min".
    size, unit = next((each for each in UNITS if seconds >= 2 * each[0]), (1, "s"))
    text = f"{seconds // size:,} {unit}"
    return f"{text} ago" if at < now else f"in {text}"


def bar(fraction: float, width: int = 10) -> str:
    """Return a bar that is filled by *fraction*."""
    filled = round(min(max(fraction, 0.0), 1.0) * width)
    return "█" * filled + "░" * (width - filled)


STEPS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the last *width* values as a line of small columns, the highest in full."""
    values = values[-width:]
    top = max(values, default=0.0)
    # Anything above zero is above the ground.
    steps = [0 if value <= 0 else max(round(value / top * 7), 1) for value in values]
    return "".join(STEPS[step] for step in steps).rjust(width, STEPS[0])


AS_ASCII = str.maketrans("█░…↑↓" + STEPS, "#.~^v" + "_.-:=+*#")


def in_ascii(text: str) -> str:
    """Return *text* with the characters of bars, sparklines and cuts replaced by plain ones."""
    return text.translate(AS_ASCII)

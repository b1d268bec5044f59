"""How a value that was refused is shown in the message that refuses it."""

from __future__ import annotations

from fencepost.core.limits import SHOWN_LENGTH_MAX


def shown(value: object) -> str:
    """Return *value* as ``repr`` does, cut to a bound; its type if it cannot be shown."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of more than 4,300 digits, or a list in itself
        return f"<{type(value).__qualname__}, too large to show>"
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}…"

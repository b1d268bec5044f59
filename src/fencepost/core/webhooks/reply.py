"""What a receiver's answer means for a delivery."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from fencepost.core.bounds import WEBHOOK_RETRY_AFTER_MAX
from fencepost.errors import HandlerSignal, PermanentError, TemporaryError

GONE = 410
TEMPORARY = frozenset({408, 425, 429})
"""Of the answers that blame the sender, those that another time may not come again."""
PATIENT = frozenset({429, 503})
"""Answers that may say when to come again."""

_DIGITS_MAX = 9


def refusal(
    origin: str, status: int, *, retry_after: str | None, now: datetime
) -> HandlerSignal | None:
    """Return what a handler raises after an answer of *status*; None if it was delivered."""
    if 200 <= status < 300:
        return None
    message = f"{origin} answered {status}"
    if 300 <= status < 400:
        # Whoever answers for a public host could send us into a private network.
        return PermanentError(f"{message}; redirects are not followed", code="callback_redirected")
    if status == GONE:
        return PermanentError(f"{message}: it wants no more webhooks", code="callback_gone")
    if 400 <= status < 500 and status not in TEMPORARY:
        return PermanentError(message, code="callback_rejected")
    wait = parse_retry_after(retry_after, now) if status in PATIENT else None
    return TemporaryError(message, retry_after=wait)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return how long a Retry-After asks to wait, within bounds; None if it cannot be read."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        seconds = float(text)
    else:
        try:
            at = parsedate_to_datetime(text)
            seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return min(max(seconds, 0.0), WEBHOOK_RETRY_AFTER_MAX)

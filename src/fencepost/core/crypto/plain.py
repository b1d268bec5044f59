"""Whether content that is not encrypted is read where there are keys: no, or until some day.

Without an end, whoever can write to the database could turn encryption off for ever, by storing
content as it was before there were keys.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import msgspec

from fencepost.core.bounds import PLAIN_DAYS_MAX
from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

_ACCEPT = re.compile(r"accept until (\d{4}-\d{2}-\d{2})", re.ASCII)
FORM = "'refuse' or 'accept until YYYY-MM-DD'"


class Plain(msgspec.Struct, frozen=True):
    """What becomes of content that is not encrypted."""

    until: date | None = None
    """The last day, in UTC, on which it is read; None if it never is."""

    def accepts(self, now: datetime) -> bool:
        """Tell whether it is read at *now*."""
        return self.until is not None and now.astimezone(UTC).date() <= self.until


REFUSE = Plain()


def parse_plain(given: object, now: datetime) -> Plain:
    """Return what ``plain=`` says at *now*, or raise ConfigurationError."""
    if isinstance(given, Plain):
        return _check_end(given, now)
    text = given.strip() if isinstance(given, str) else ""
    if text == "refuse":
        return REFUSE
    found = _ACCEPT.fullmatch(text)
    try:
        until = None if found is None else date.fromisoformat(found[1])
    except ValueError:  # such as the 31st of February
        until = None
    if until is None:
        raise ConfigurationError(f"plain must be {FORM}, got {shown(given)}")
    return _check_end(Plain(until), now)


def _check_end(plain: Plain, now: datetime) -> Plain:
    """A day long past is fine: it refuses, and an app need not be changed for that."""
    latest = now.astimezone(UTC).date() + timedelta(days=PLAIN_DAYS_MAX)
    if plain.until is not None and plain.until > latest:
        raise ConfigurationError(
            f"plain content can be accepted for {PLAIN_DAYS_MAX} days at most, that is until "
            f"{latest}; got {plain.until}"
        )
    return plain

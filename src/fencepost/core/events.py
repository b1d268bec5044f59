"""Events: names, patterns and values. A sent event becomes one job for each of its handlers.

A name is words separated by dots. In a pattern ``*`` matches exactly one word, and ``**``, which
can only be the last word, one or more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from fencepost.core.bounds import EVENT_NAME_LENGTH_MAX
from fencepost.core.display import shown
from fencepost.core.job.job import EMPTY, Body, NewJob
from fencepost.core.values.names import RESERVED_TAGS, check_text
from fencepost.core.values.payload import decode
from fencepost.errors import InvalidEventError

ANY_WORD = "*"
ANY_WORDS = "**"
EVENT_TAG = f"{RESERVED_TAGS}event"
"""The tag with the name of a job's event; the correlation id is the event's id."""

_WORD = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class EventInfo(msgspec.Struct, frozen=True):
    """The event of a job, as its handler sees it."""

    id: str
    name: str


class NewEvent(msgspec.Struct, frozen=True):
    """An event that has been checked and encoded, ready to be sent. It has no id yet."""

    name: str
    payload: Body = EMPTY
    key: str | None = None
    """The idempotency key that its handlers' jobs carry, for the record."""
    id: bytes | None = None
    """As in NewJob."""


class EventJob(msgspec.Struct, frozen=True, array_like=True):
    """One handler's job for an event, new or returned for its key."""

    job_id: str
    type: str
    is_duplicate: bool
    """True if the job existed before and held the key."""


class SentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a sent event."""

    id: str
    name: str
    sent_at: datetime
    payload: Body = EMPTY
    key: str | None = None
    jobs: tuple[EventJob, ...] = ()

    @property
    def data(self) -> Any:
        """The payload by name; raises InvalidPayloadError if it cannot be read."""
        return decode(self.payload)


def check_event_name(value: object) -> str:
    """Return *value* if it is the full name of an event, or raise InvalidEventError."""
    for word in _words(value, what="event name"):
        if word in (ANY_WORD, ANY_WORDS):
            raise InvalidEventError(
                f"{shown(value)} is a pattern; give the full name of an event: 'user.created'"
            )
        _check_word(word, value, what="event name")
    return str(value)


def check_pattern(value: object) -> str:
    """Return *value* if it is a name or a pattern of names, or raise InvalidEventError."""
    *first, last = _words(value, what="event pattern")
    for word in first:
        if word == ANY_WORDS:
            raise InvalidEventError(f"`**` can only be the last word of a pattern: {shown(value)}")
        if word != ANY_WORD:
            _check_word(word, value, what="event pattern")
    if last not in (ANY_WORD, ANY_WORDS):
        _check_word(last, value, what="event pattern")
    return str(value)


def _words(value: object, *, what: str) -> list[str]:
    text = check_text(
        value, what=f"an {what}", limit=EVENT_NAME_LENGTH_MAX, error=InvalidEventError
    )
    return text.split(".")


def _check_word(word: str, value: object, *, what: str) -> None:
    if not _WORD.fullmatch(word):
        raise InvalidEventError(
            f"an {what} is words of letters, digits, `_` and `-`, separated by dots, such as "
            f"'user.created'; got {shown(value)}"
        )


def matches(pattern: str, name: str) -> bool:
    """Return whether *pattern* matches *name*; both have been checked."""
    wanted, words = pattern.split("."), name.split(".")
    if wanted[-1] == ANY_WORDS:
        wanted.pop()
        if len(words) <= len(wanted):
            return False
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(
        one in (ANY_WORD, other) for one, other in zip(wanted, words, strict=True)
    )


def jobs_for(event_id: str, event: NewEvent, jobs: Sequence[NewJob]) -> list[NewJob]:
    """Return *jobs* marked with the name and the id of their event."""
    return [
        msgspec.structs.replace(
            job, tags={**job.tags, EVENT_TAG: event.name}, correlation_id=event_id
        )
        for job in jobs
    ]


def event_of(tags: dict[str, str], correlation_id: str | None) -> EventInfo | None:
    """Return the event of the job with these tags, if it has one."""
    name = tags.get(EVENT_TAG)
    return None if name is None or correlation_id is None else EventInfo(correlation_id, name)

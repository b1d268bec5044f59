"""Events: names and patterns, and the values that travel; what is sent becomes jobs of handlers.

A name is words with dots between them. In a pattern ``*`` stands for exactly one word, and ``**``,
which only the last word can be, for one or more.
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
from fencepost.core.values.names import RESERVED_TAGS
from fencepost.core.values.payload import decode
from fencepost.errors import InvalidEventError

ANY_WORD = "*"
ANY_WORDS = "**"
EVENT_TAG = f"{RESERVED_TAGS}event"
"""The tag that names the event for which a job was made; its correlation id is the event's id."""

_WORD = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class EventInfo(msgspec.Struct, frozen=True):
    """The event for which a job was made, as its handler learns of it."""

    id: str
    name: str


class NewEvent(msgspec.Struct, frozen=True):
    """An event that has been checked and encoded, ready to be sent. It has no id yet."""

    name: str
    payload: Body = EMPTY
    key: str | None = None
    """The idempotency key that its handlers' jobs carry, for the record."""
    id: bytes | None = None
    """Set by a store around a store that has to know it beforehand, as that of a NewJob is."""


class EventJob(msgspec.Struct, frozen=True, array_like=True):
    """One handler's part in an event: the job made for it, or the one its key returned."""

    job_id: str
    type: str
    is_duplicate: bool
    """True when the key was held by this job, which had been there before."""


class SentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an event: what was sent, when, and the jobs that it came to."""

    id: str
    name: str
    sent_at: datetime
    payload: Body = EMPTY
    key: str | None = None
    jobs: tuple[EventJob, ...] = ()

    @property
    def data(self) -> Any:
        """What was sent, by name; raises InvalidPayloadError if it cannot be read."""
        return decode(self.payload)


def check_event_name(value: object) -> str:
    """Return *value* if it is the full name of an event, or raise InvalidEventError."""
    for word in _words(value, what="event name"):
        if word in (ANY_WORD, ANY_WORDS):
            raise InvalidEventError(
                f"{shown(value)} is a pattern, and one event is meant; give its full name, such as "
                f"'user.created'"
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
    if not isinstance(value, str) or not value:
        raise InvalidEventError(f"an {what} must be non-empty text, got {shown(value)}")
    if len(value) > EVENT_NAME_LENGTH_MAX:
        raise InvalidEventError(
            f"an {what} may have {EVENT_NAME_LENGTH_MAX} characters, got {len(value)}"
        )
    return value.split(".")


def _check_word(word: str, value: object, *, what: str) -> None:
    if not _WORD.fullmatch(word):
        raise InvalidEventError(
            f"an {what} is words of letters, digits, `_` and `-` with dots between them, such as "
            f"'user.created'; got {shown(value)}"
        )


def is_pattern(pattern: str) -> bool:
    """Tell whether a checked *pattern* can mean more than one name."""
    return ANY_WORD in pattern


def matches(pattern: str, name: str) -> bool:
    """Tell whether *pattern* means the event called *name*; both have been checked."""
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
    """Return *jobs* as the event's: each can be found, and told, by its name and its id."""
    return [
        msgspec.structs.replace(
            job, tags={**job.tags, EVENT_TAG: event.name}, correlation_id=event_id
        )
        for job in jobs
    ]


def event_of(tags: dict[str, str], correlation_id: str | None) -> EventInfo | None:
    """Return the event for which the job of these tags was made, if it was one."""
    name = tags.get(EVENT_TAG)
    return None if name is None or correlation_id is None else EventInfo(correlation_id, name)

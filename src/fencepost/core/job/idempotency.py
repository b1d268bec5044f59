"""Idempotency keys: at most one job a (type, key), while it is live or for a window (C15)."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

import msgspec

from fencepost.core.bounds import KEY_LENGTH_MAX, KEY_WINDOW_DEFAULT
from fencepost.core.values.names import check_choice, check_text
from fencepost.errors import InvalidKeyError

CRON_KEYS = "cron:"
"""The beginning of the keys of ticks, which can be guessed."""


class OnDuplicate(StrEnum):
    """What a submission does when its key is held by another job."""

    RETURN = "return"
    REJECT = "reject"


class Key(msgspec.Struct, frozen=True):
    """A key and how long it is held."""

    value: str
    window: float | None = KEY_WINDOW_DEFAULT
    """Seconds from submission, at least as long as the job lives; None: until the job has ended."""
    on_duplicate: OnDuplicate = OnDuplicate.RETURN
    within: frozenset[str] | None = None
    """The queues whose jobs the submitter may see; None means all. If a job of another queue holds
    the key, the submission is refused, whatever ``on_duplicate`` says."""

    def refuses(self, holder_queue: str | None) -> bool:
        """Return whether a job in this queue (None: unknown) makes the submission fail."""
        if self.on_duplicate is OnDuplicate.REJECT:
            return True
        return self.within is not None and holder_queue not in self.within


def check_key(value: object) -> str:
    """Return *value* if it can be a key, or raise InvalidKeyError. Characters count, not bytes."""
    text = check_text(value, what="an idempotency key", limit=KEY_LENGTH_MAX, error=InvalidKeyError)
    if "\0" in text:
        raise InvalidKeyError("an idempotency key must not contain a NUL: not every store keeps it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"an idempotency key must be valid Unicode: {error}") from None
    return text


def check_foreign_key(value: object) -> str:
    """Return *value* if it can be a key that an HTTP client chooses, or raise InvalidKeyError.

    A job that holds the key of a tick keeps its cron from submitting one, in any queue.
    """
    key = check_key(value)
    if key.startswith(CRON_KEYS):
        raise InvalidKeyError(
            f"keys that begin with {CRON_KEYS!r} are those of crons: choose another"
        )
    return key


parse_on_duplicate = partial(check_choice, name="on_duplicate", among=OnDuplicate)


def is_held(*, is_live: bool, window_ends_us: int | None, now_us: int) -> bool:
    """Return whether a key still belongs to its job."""
    return is_live or (window_ends_us is not None and now_us < window_ends_us)

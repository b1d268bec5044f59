"""Idempotency keys: at most one job a (type, key), while it is live or for a window (C15)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from fencepost.core.bounds import KEY_LENGTH_MAX, KEY_WINDOW_DEFAULT
from fencepost.core.display import shown
from fencepost.errors import ConfigurationError, InvalidKeyError


class OnDuplicate(StrEnum):
    """What a submission does when its key is held by another job."""

    RETURN = "return"
    REJECT = "reject"


class Key(msgspec.Struct, frozen=True):
    """A key and how long it is held.

    ``window`` is in seconds from submission, and never shorter than the live job; ``None`` means
    that the key is released as soon as its job is terminal.
    """

    value: str
    window: float | None = KEY_WINDOW_DEFAULT
    on_duplicate: OnDuplicate = OnDuplicate.RETURN
    within: frozenset[str] | None = None
    """The queues whose jobs the submitter may know of; None means all. A holder in any other queue
    refuses, whatever ``on_duplicate`` says: nothing may be returned of it, or wait for it."""

    def refuses(self, holder_queue: str | None) -> bool:
        """Tell whether a submission is refused whose key is held by a job of this queue.

        None is a queue that could not be looked up.
        """
        if self.on_duplicate is OnDuplicate.REJECT:
            return True
        return self.within is not None and holder_queue not in self.within


def check_key(value: object) -> str:
    """Return *value* if it can be a key, or raise InvalidKeyError. Characters count, not bytes."""
    if not isinstance(value, str) or not value:
        raise InvalidKeyError(f"an idempotency key must be non-empty text, got {shown(value)}")
    if len(value) > KEY_LENGTH_MAX:
        raise InvalidKeyError(
            f"an idempotency key may have {KEY_LENGTH_MAX} characters, got {len(value)}"
        )
    if "\0" in value:
        raise InvalidKeyError("an idempotency key must not hold a NUL, which not every store keeps")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"an idempotency key must be valid Unicode: {error}") from None
    return value


def parse_on_duplicate(value: str | OnDuplicate) -> OnDuplicate:
    """Return the choice that *value* names, or raise ConfigurationError."""
    try:
        return OnDuplicate(value)
    except ValueError:
        raise ConfigurationError(
            f'on_duplicate must be "return" or "reject", got {shown(value)}'
        ) from None


def is_held(*, is_live: bool, window_ends_us: int | None, now_us: int) -> bool:
    """Tell whether a key still belongs to its job."""
    return is_live or (window_ends_us is not None and now_us < window_ends_us)

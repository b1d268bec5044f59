"""Rules for the names that users give: types, queues, correlation ids and tags."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from fencepost.core import bounds
from fencepost.core.bounds import (
    CONCURRENCY_KEY_LENGTH_MAX,
    CORRELATION_ID_LENGTH_MAX,
    NODE_LENGTH_MAX,
    QUEUE_LENGTH_MAX,
    TAG_COUNT_MAX,
    TAG_NAME_LENGTH_MAX,
    TAG_VALUE_LENGTH_MAX,
    TYPE_LENGTH_MAX,
)
from fencepost.core.display import shown
from fencepost.errors import InvalidJobError

UNPRINTABLE = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f"
)
"""What no name has in it: control characters, spaces but the usual one, marks that nobody sees or
that turn the text around. As a class of characters, so that the document of the API says the same.
"""
_PRINTABLE = re.compile(rf"[^{UNPRINTABLE}\ud800-\udfff]+")  # halves of characters are not JSON

DEFAULT_QUEUE = "default"
RESERVED_TYPES = "fencepost."
"""What the names of our own types begin with: whoever could submit one could have us sign it."""
RESERVED_TAGS = "fencepost."
"""How the names of tags begin that Fencepost sets itself; they can be searched, not given."""


def check_name(value: object, *, what: str, limit: int) -> str:
    """Return *value* if it is 1 to *limit* printable characters, or raise InvalidJobError."""
    if not isinstance(value, str) or not value:
        raise InvalidJobError(f"{what} must be non-empty text, got {shown(value)}")
    if len(value) > limit:
        raise InvalidJobError(f"{what} may have {limit} characters, got {len(value)}")
    if not (value.isprintable() or _PRINTABLE.fullmatch(value)):
        raise InvalidJobError(f"{what} must be printable text, got {shown(value)}")
    return value


def check_type(value: object) -> str:
    """Return *value* if it can name a type, or raise InvalidJobError."""
    return check_name(value, what="type", limit=TYPE_LENGTH_MAX)


def check_own_type(value: object) -> str:
    """Return *value* if a user's task may be called so, or raise InvalidJobError."""
    name = check_type(value)
    if name.startswith(RESERVED_TYPES):
        raise InvalidJobError(
            f"types that begin with {RESERVED_TYPES!r} are Fencepost's own, got {shown(name)}"
        )
    return name


def check_queue(value: object) -> str:
    """Return *value* if it can name a queue, or raise InvalidJobError."""
    return check_name(value, what="queue", limit=QUEUE_LENGTH_MAX)


def lanes_max(type: str) -> int:
    """Return how many lanes there may be when a job of *type* would need one more.

    One of Fencepost's own is not refused: what it does for a job that was accepted goes on.
    """
    return sys.maxsize if type.startswith(RESERVED_TYPES) else bounds.LANES_MAX


def check_correlation_id(value: str | None) -> str | None:
    """Return *value* if it can correlate jobs, or raise InvalidJobError."""
    if value is None:
        return None
    return check_name(value, what="correlation_id", limit=CORRELATION_ID_LENGTH_MAX)


def check_concurrency_key(value: object) -> str:
    """Return *value* if it can be a concurrency key, or raise InvalidJobError."""
    return check_name(value, what="concurrency_key", limit=CONCURRENCY_KEY_LENGTH_MAX)


def check_flow(value: str | None) -> str | None:
    """Return *value* if it can be the id of a flow, or raise InvalidJobError."""
    if value is None:
        return None
    return check_name(value, what="flow", limit=CORRELATION_ID_LENGTH_MAX)


def check_node(value: object) -> str:
    """Return *value* if it can name a node of a flow, or raise InvalidJobError."""
    return check_name(value, what="node", limit=NODE_LENGTH_MAX)


def check_tags(tags: Mapping[str, str] | None, *, may_be_reserved: bool = False) -> dict[str, str]:
    """Return a copy of *tags*, names and values checked, or raise InvalidJobError."""
    if not tags:
        return {}
    if not isinstance(tags, Mapping):
        raise InvalidJobError(f"tags must map names to text, got {shown(tags)}")
    if len(tags) > TAG_COUNT_MAX:
        raise InvalidJobError(f"a job may have {TAG_COUNT_MAX} tags, got {len(tags)}")
    checked = {
        check_name(name, what="tag name", limit=TAG_NAME_LENGTH_MAX): check_name(
            value, what=f"tag {shown(name)}", limit=TAG_VALUE_LENGTH_MAX
        )
        for name, value in tags.items()
    }
    reserved = reserved_tags(checked)
    if reserved and not may_be_reserved:
        raise InvalidJobError(
            f"tag {shown(min(reserved))} begins with {RESERVED_TAGS!r}, which Fencepost keeps for "
            f"its own; call it something else"
        )
    return checked


def reserved_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return those of *tags* that only Fencepost sets."""
    return {name: value for name, value in tags.items() if name.startswith(RESERVED_TAGS)}

"""Rules for what users give: names of types and queues, tags, ids, whole numbers.

A job id is a UUID of version 4: text outside, sixteen bytes inside.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TypeVar

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
from fencepost.errors import (
    ConfigurationError,
    FencepostError,
    InvalidJobError,
    JobNotFoundError,
)

E = TypeVar("E", bound=StrEnum)

UNPRINTABLE = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f"
)
"""Forbidden in names: control characters, unusual spaces, marks that are invisible or change the
direction of text. As a character class, so that the OpenAPI document can say the same."""
_PRINTABLE = re.compile(rf"[^{UNPRINTABLE}\ud800-\udfff]+")  # halves of characters are not JSON

DEFAULT_QUEUE = "default"
RESERVED_TYPES = "fencepost."
"""The prefix of our own types. A user must not submit such a job: we sign what it sends."""
RESERVED_TAGS = "fencepost."
"""The prefix of tags that Fencepost sets itself; users can search for them, not set them."""


def check_count(value: object, name: str, minimum: int, maximum: int) -> int:
    """Return *value* if it is a whole number within bounds, or raise ConfigurationError."""
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ConfigurationError(
            f"{name} must lie between {minimum:,} and {maximum:,}, got {shown(value)}"
        )
    return value


def check_number(value: object, name: str, minimum: float, maximum: float) -> float:
    """Return *value* if it is a number within bounds, or raise ConfigurationError."""
    is_bool = isinstance(value, bool)
    if not isinstance(value, (int, float)) or is_bool or not minimum <= value <= maximum:
        raise ConfigurationError(
            f"{name} must lie between {minimum:,} and {maximum:,}, got {shown(value)}"
        )
    return float(value)


def check_choice(value: object, name: str, among: type[E]) -> E:
    """Return the member of an enumeration that *value* names, or raise ConfigurationError."""
    try:
        return among(value)  # type: ignore[arg-type]  # that it may be anything is the point
    except ValueError:
        names = ", ".join(f'"{each}"' for each in among)
        raise ConfigurationError(f"{name} must be one of {names}, got {shown(value)}") from None


def check_list(values: object, name: str, *, example: str, most: int) -> list[object]:
    """Return the values of a list, or raise ConfigurationError; text is not one."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{name} must be a list such as {example}, got {shown(values)}")
    listed = list(values)
    if len(listed) > most:
        raise ConfigurationError(f"{name} may have {most} values, got {len(listed)}")
    return listed


def check_text(
    value: object, *, what: str, limit: int, error: type[FencepostError] = InvalidJobError
) -> str:
    """Return *value* if it is text of 1 to *limit* characters, or raise *error*."""
    if not isinstance(value, str) or not value:
        raise error(f"{what} must be non-empty text, got {shown(value)}")
    if len(value) > limit:
        raise error(f"{what} may have {limit} characters, got {len(value)}")
    return value


def check_name(
    value: object, *, what: str, limit: int, error: type[FencepostError] = InvalidJobError
) -> str:
    """Return *value* if it is 1 to *limit* printable characters, or raise *error*."""
    text = check_text(value, what=what, limit=limit, error=error)
    if not (text.isprintable() or _PRINTABLE.fullmatch(text)):
        raise error(f"{what} must be printable text, got {shown(text)}")
    return text


check_type = partial(check_name, what="type", limit=TYPE_LENGTH_MAX)
check_queue = partial(check_name, what="queue", limit=QUEUE_LENGTH_MAX)
check_correlation_id = partial(check_name, what="correlation_id", limit=CORRELATION_ID_LENGTH_MAX)
check_concurrency_key = partial(
    check_name, what="concurrency_key", limit=CONCURRENCY_KEY_LENGTH_MAX
)
check_flow = partial(check_name, what="flow", limit=CORRELATION_ID_LENGTH_MAX)
check_node = partial(check_name, what="node", limit=NODE_LENGTH_MAX)


def check_own_type(value: object) -> str:
    """Return *value* if it can name a user's type, or raise InvalidJobError."""
    name = check_type(value)
    if name.startswith(RESERVED_TYPES):
        raise InvalidJobError(
            f"types that begin with {RESERVED_TYPES!r} are Fencepost's own, got {shown(name)}"
        )
    return name


def lanes_max(type: str) -> int:
    """Return the limit of lanes for a new job of *type*; our own types are never refused."""
    return sys.maxsize if type.startswith(RESERVED_TYPES) else bounds.LANES_MAX


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
            f"tag {shown(min(reserved))} begins with {RESERVED_TAGS!r}, which is reserved; "
            f"call it something else"
        )
    return checked


def reserved_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return those of *tags* that only Fencepost sets."""
    return {name: value for name, value in tags.items() if name.startswith(RESERVED_TAGS)}


_CANONICAL = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII
)

_H = "[0-9A-Fa-f]"
ID_PATTERN = f"^{_H}{{8}}-{_H}{{4}}-4{_H}{{3}}-[89ABab]{_H}{{3}}-{_H}{{12}}$"
"""An id, in digits of either case."""
ID_PREFIX_PATTERN = (
    f"^({_H}{{1,32}}|{_H}{{8}}-({_H}{{0,4}}|{_H}{{4}}-({_H}{{0,4}}|{_H}{{4}}-"
    f"({_H}{{0,4}}|{_H}{{4}}-{_H}{{0,12}}))))$"
)
"""The beginning of an id, with the dashes where an id has them, or without any."""


def id_text(raw: bytes) -> str:
    """Return sixteen bytes as the canonical text of a UUID."""
    return id_of_digits(raw.hex())


def id_of_digits(digits: str) -> str:
    """Return 32 hexadecimal digits as the canonical text of a UUID."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_bytes(text: object) -> bytes:
    """Return the sixteen bytes of a job id, or raise JobNotFoundError for invalid text."""
    lowered = text.lower() if isinstance(text, str) else ""
    if not _CANONICAL.fullmatch(lowered):
        raise JobNotFoundError(text if isinstance(text, str) else shown(text))
    return bytes.fromhex(lowered.replace("-", ""))


def is_id(text: str) -> bool:
    """Return whether *text* could be the id of a job."""
    return _CANONICAL.fullmatch(text.lower()) is not None


def check_id_prefix(value: object) -> str:
    """Return the digits with which ids are to begin, or raise InvalidJobError."""
    if not isinstance(value, str) or not re.fullmatch(ID_PREFIX_PATTERN, value):
        raise InvalidJobError(
            f"id_prefix must be the beginning of a job's id, such as '3f2a', got {shown(value)}"
        )
    return value.lower().replace("-", "")


def id_range(prefix: str) -> tuple[bytes, bytes]:
    """Return the lowest and the highest sixteen bytes that begin with the digits *prefix*."""
    return bytes.fromhex(prefix.ljust(32, "0")), bytes.fromhex(prefix.ljust(32, "f"))


def attempt_id(job_id: str, lease_version: int) -> str:
    """Return the id of the attempt that runs under lease *lease_version* of a job (S1-78)."""
    return f"{job_id}.{lease_version}"


def previous_attempt_id(job_id: str, last_version: int) -> str | None:
    """Return the id of the attempt under lease *last_version*; None for 0."""
    return attempt_id(job_id, last_version) if last_version else None


def wanted_ids(job_ids: Sequence[str]) -> dict[bytes, str]:
    """Return the bytes and the lower-case text of each id; invalid ids are left out."""
    wanted = {}
    for job_id in job_ids:
        with suppress(JobNotFoundError):
            wanted[id_bytes(job_id)] = job_id.lower()
    return wanted

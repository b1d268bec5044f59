"""The types of fields (names, durations, priorities), with their rules for the OpenAPI document.

These rules refuse nothing: ``core`` does, with a code and a text that say what to do. They state in
the document what ``core`` refuses, as far as a schema can. A value that breaks one of them is
refused; one that keeps them all may still be, where a schema cannot express the rule ("a job that
exists", "a known time zone", "at most ten years").
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from fencepost.core.access.bounds import TOKEN_RATE_MAX, TOKEN_RATE_MIN
from fencepost.core.bounds import (
    ATTEMPTS_MAX,
    CALLBACK_URL_LENGTH_MAX,
    CLAIM_MAX,
    CONCURRENCY_KEY_LENGTH_MAX,
    CORRELATION_ID_LENGTH_MAX,
    CRON_NEXT_MAX,
    CRON_RUNS_MAX,
    DEPENDENCY_COUNT_MAX,
    DURATION_MAX,
    ERROR_TEXT_LENGTH_MAX,
    EVENT_NAME_LENGTH_MAX,
    KEY_LENGTH_MAX,
    LEASE_TTL_MIN,
    NODE_LENGTH_MAX,
    PAGE_MAX,
    QUEUE_LENGTH_MAX,
    RUNNING_MAX,
    TAG_COUNT_MAX,
    TAG_NAME_LENGTH_MAX,
    TAG_VALUE_LENGTH_MAX,
    TYPE_LENGTH_MAX,
    WEIGHT_MAX,
    WHERE_LENGTH_MAX,
    WHERE_MAX,
)
from fencepost.core.job.idempotency import CRON_KEYS
from fencepost.core.job.policy import Priority
from fencepost.core.look import WHERE_PATTERN
from fencepost.core.values.names import ID_PATTERN, ID_PREFIX_PATTERN, UNPRINTABLE
from fencepost.core.values.times import TEXT_LENGTH_MAX
from fencepost.wire.bounds import HTTP_WAIT_MAX, WORKER_LENGTH_MAX


class Strict(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a client sends; a field that is not in it is refused."""


Rules = dict[str, Any]

REF = "#/components/schemas/{name}"

_PRINTABLE = f"^[^{UNPRINTABLE}]+$"
_DURATION = r"^ *([0-9]+(\.[0-9]+)? *(ms|s|m|h|d|w) *)+$"


def name_rules(limit: int) -> Rules:
    """Return the rules of a name: 1 to *limit* printable characters."""
    return {"minLength": 1, "maxLength": limit, "pattern": _PRINTABLE}


def _schema(**rules: Any) -> Meta:
    return Meta(extra_json_schema=rules)


def _name(limit: int, example: str) -> Meta:
    return _schema(**name_rules(limit), examples=[example])


def event_rules() -> Rules:
    """Return the rules of an event's full name: words with dots between them."""
    word = "[A-Za-z0-9_-]+"
    pattern = rf"^{word}(\.{word})*$"
    return {"minLength": 1, "maxLength": EVENT_NAME_LENGTH_MAX, "pattern": pattern}


def _between(minimum: float, maximum: float) -> Meta:
    return _schema(minimum=minimum, maximum=maximum)


def either(*kinds: type) -> Meta:
    """Return a rule that a value is of one of *kinds*, which msgspec cannot express."""
    refs = [{"$ref": REF.format(name=kind.__name__)} for kind in kinds]
    return Meta(extra_json_schema={"anyOf": refs}, extra={"kinds": kinds})


TypeName = Annotated[str, _name(TYPE_LENGTH_MAX, "send_mail")]
QueueName = Annotated[str, _name(QUEUE_LENGTH_MAX, "mail")]
NodeName = Annotated[str, _name(NODE_LENGTH_MAX, "fetch")]
WorkerName = Annotated[str, _name(WORKER_LENGTH_MAX, "worker-1")]
CorrelationId = Annotated[str, _name(CORRELATION_ID_LENGTH_MAX, "order-42")]
ConcurrencyKey = Annotated[str, _name(CONCURRENCY_KEY_LENGTH_MAX, "tenant-7")]
TagName = Annotated[str, _name(TAG_NAME_LENGTH_MAX, "tenant")]
TagValue = Annotated[str, _name(TAG_VALUE_LENGTH_MAX, "7")]
TAG_PATTERN = (
    f"^([^:%{UNPRINTABLE}]|%3A){{1,{TAG_NAME_LENGTH_MAX}}}"
    f":[^{UNPRINTABLE}]{{1,{TAG_VALUE_LENGTH_MAX}}}$"
)
"""A name and a value, as a search has them."""
Tags = Annotated[dict[TagName, TagValue], _schema(maxProperties=TAG_COUNT_MAX)]
EventName = Annotated[str, _schema(**event_rules(), examples=["user.created"])]
IdempotencyKey = Annotated[
    str,
    _schema(
        minLength=1,
        maxLength=KEY_LENGTH_MAX,
        pattern=rf"^(?!{CRON_KEYS})[^\u0000]+$",
        examples=["welcome:42"],
    ),
]
CallbackUrl = Annotated[
    str,
    _schema(
        maxLength=CALLBACK_URL_LENGTH_MAX,
        pattern="^[Hh][Tt][Tt][Pp][Ss]?://",
        examples=["https://example.com/hook"],
    ),
]
ClearableId = Annotated[
    str,
    _schema(
        maxLength=CORRELATION_ID_LENGTH_MAX,
        pattern=f"^[^{UNPRINTABLE}]*$",
        examples=["order-42", ""],
    ),
]
"""As CorrelationId, or empty for none."""
ClearableUrl = Annotated[
    str,
    _schema(
        maxLength=CALLBACK_URL_LENGTH_MAX,
        pattern="^([Hh][Tt][Tt][Pp][Ss]?://|$)",
        examples=["https://example.com/hook", ""],
    ),
]
"""As CallbackUrl, or empty for none."""

_TEXT = Annotated[
    str, _schema(maxLength=TEXT_LENGTH_MAX, pattern=_DURATION, examples=["90s", "10m"])
]
Duration = Annotated[float, _between(0, DURATION_MAX)] | _TEXT
"""Seconds, or text such as "90s"."""
LeaseTtl = Annotated[float, _between(LEASE_TTL_MIN, DURATION_MAX)] | _TEXT
ClaimTimeout = Annotated[float, _between(0, HTTP_WAIT_MAX)] | _TEXT

QueryDuration = Annotated[
    str,
    _schema(
        maxLength=TEXT_LENGTH_MAX,
        pattern=rf"^([0-9]+(\.[0-9]+)?|{_DURATION[1:-1]})$",
        examples=["90s", "10m", "0.5"],
    ),
]
"""As Duration, in a query, where everything is text."""
Cursor = Annotated[str, _schema(minLength=1, pattern="^[A-Za-z0-9_-]+$")]
"""The ``next`` of a page."""

PriorityText = Annotated[
    str,
    _schema(
        enum=[
            *(priority.name.lower() for priority in Priority),
            *(str(priority.value) for priority in Priority),
        ]
    ),
]
"""A name or a number, in a query, where everything is text."""
SearchedKey = Annotated[
    str,
    _schema(
        minLength=1, maxLength=KEY_LENGTH_MAX, pattern=r"^[^\u0000]+$", examples=["welcome:42"]
    ),
]
ErrorText = Annotated[
    str, _schema(minLength=1, maxLength=ERROR_TEXT_LENGTH_MAX, examples=["ConnectionError"])
]
WhereText = Annotated[
    str,
    _schema(maxLength=WHERE_LENGTH_MAX, pattern=WHERE_PATTERN, examples=["payload.user.id=42"]),
]
WhereTexts = Annotated[list[WhereText], _schema(maxItems=WHERE_MAX)]

PriorityNumber = Annotated[int, _between(min(Priority), max(Priority))]
PriorityName = Annotated[str, _schema(enum=[priority.name.lower() for priority in Priority])]
AttemptCount = Annotated[int, _between(1, ATTEMPTS_MAX)]
RetryCount = Annotated[int, _between(0, ATTEMPTS_MAX - 1)]
Multiplier = Annotated[float, _between(1, 1_000)]
Jitter = Literal["full"] | Annotated[float, _schema(minimum=0, exclusiveMaximum=1)]
Fraction = Annotated[float, _between(0, 1)]

JobId = Annotated[str, _schema(format="uuid")]
NewId = Annotated[str, _schema(format="uuid", pattern=ID_PATTERN)]
"""An id that a caller has made."""
IdPrefix = Annotated[
    str,
    _schema(minLength=1, maxLength=36, pattern=ID_PREFIX_PATTERN, examples=["3f2a"]),
]
_Awaited = Annotated[str, _schema(**name_rules(CORRELATION_ID_LENGTH_MAX))]
"""The id of a job, or the name of another node of the flow."""
DependencyIds = Annotated[list[_Awaited], _schema(maxItems=DEPENDENCY_COUNT_MAX)]
AnyDependencyIds = Annotated[list[_Awaited], _schema(minItems=1, maxItems=DEPENDENCY_COUNT_MAX)]

RequestRate = Annotated[float, _between(TOKEN_RATE_MIN, TOKEN_RATE_MAX)]
PageLimit = Annotated[int, _between(1, PAGE_MAX)]
ClaimLimit = Annotated[int, _between(1, CLAIM_MAX)]
_WINDOW = (
    "s|sec|second|m|min|minute|h|hour|d|day"
    "|[1-9][0-9]{0,3}(ms|s)|[1-9][0-9]{0,2}m|([1-9]|1[0-9]|2[0-4])h"
)
RateText = Annotated[
    str,
    _schema(pattern=f"^([1-9][0-9]{{0,5}}|1000000)/({_WINDOW})$", examples=["100/m", "10/30s"]),
]
"""A rate in its plainest forms; ``parse_rate`` reads more."""
RunningLimit = Annotated[int, _between(1, RUNNING_MAX)]
TickCount = Annotated[int, _between(1, CRON_NEXT_MAX)]
RunCount = Annotated[int, _between(1, CRON_RUNS_MAX)]
Weight = Annotated[int, _between(1, WEIGHT_MAX)]

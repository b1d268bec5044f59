"""The words of the wire: what a name, a duration or a priority looks like, for the document.

Nothing here refuses anything: ``core`` does, with a code and a text that say what to do. Here is
what it refuses, as a schema can say it, so that clients see it before they ask. A value that breaks
one of these rules is refused; one that keeps them all may still be, where a schema has no words for
the rule ("a job that exists", "a zone that this machine knows", "ten years at the most").
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from fencepost.core.bounds import (
    ATTEMPTS_MAX,
    CALLBACK_URL_LENGTH_MAX,
    CLAIM_MAX,
    CONCURRENCY_KEY_LENGTH_MAX,
    CORRELATION_ID_LENGTH_MAX,
    CRON_NEXT_MAX,
    DEPENDENCY_COUNT_MAX,
    DURATION_MAX,
    EVENT_NAME_LENGTH_MAX,
    HTTP_WAIT_MAX,
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
    WORKER_LENGTH_MAX,
)
from fencepost.core.job.priority import Priority
from fencepost.core.values.names import UNPRINTABLE

Rules = dict[str, Any]

REF = "#/components/schemas/{name}"

_PRINTABLE = f"^[^{UNPRINTABLE}]+$"
_DURATION = r"^ *([0-9]+(\.[0-9]+)? *(ms|s|m|h|d|w) *)+$"


def name_rules(limit: int) -> Rules:
    """Return the rules of a name: so many printable characters, and one at least."""
    return {"minLength": 1, "maxLength": limit, "pattern": _PRINTABLE}


def _name(limit: int, *examples: str) -> Meta:
    return Meta(extra_json_schema={**name_rules(limit), "examples": list(examples)})


def event_rules() -> Rules:
    """Return the rules of an event's full name: words with dots between them."""
    word = "[A-Za-z0-9_-]+"
    pattern = rf"^{word}(\.{word})*$"
    return {"minLength": 1, "maxLength": EVENT_NAME_LENGTH_MAX, "pattern": pattern}


def _between(minimum: float, maximum: float) -> Meta:
    return Meta(extra_json_schema={"minimum": minimum, "maximum": maximum})


def either(*kinds: type) -> Meta:
    """Return what says that a value is of one of *kinds*, which msgspec has no words for."""
    refs = [{"$ref": REF.format(name=kind.__name__)} for kind in kinds]
    return Meta(extra_json_schema={"anyOf": refs}, extra={"kinds": kinds})


def _at_most(limit: int) -> Meta:
    return Meta(extra_json_schema={"maxItems": limit})


TypeName = Annotated[str, _name(TYPE_LENGTH_MAX, "send_mail")]
QueueName = Annotated[str, _name(QUEUE_LENGTH_MAX, "mail")]
NodeName = Annotated[str, _name(NODE_LENGTH_MAX, "fetch")]
WorkerName = Annotated[str, _name(WORKER_LENGTH_MAX, "worker-1")]
CorrelationId = Annotated[str, _name(CORRELATION_ID_LENGTH_MAX, "order-42")]
ConcurrencyKey = Annotated[str, _name(CONCURRENCY_KEY_LENGTH_MAX, "tenant-7")]
TagName = Annotated[str, _name(TAG_NAME_LENGTH_MAX, "tenant")]
TagValue = Annotated[str, _name(TAG_VALUE_LENGTH_MAX, "7")]
Tags = Annotated[dict[TagName, TagValue], Meta(extra_json_schema={"maxProperties": TAG_COUNT_MAX})]
EventName = Annotated[str, Meta(extra_json_schema={**event_rules(), "examples": ["user.created"]})]
IdempotencyKey = Annotated[
    str,
    Meta(
        extra_json_schema={
            "minLength": 1,
            "maxLength": KEY_LENGTH_MAX,
            "pattern": r"^[^\u0000]+$",
            "examples": ["welcome:42"],
        }
    ),
]
CallbackUrl = Annotated[
    str,
    Meta(
        extra_json_schema={
            "maxLength": CALLBACK_URL_LENGTH_MAX,
            "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://",
            "examples": ["https://example.com/hook"],
        }
    ),
]
ClearableId = Annotated[
    str,
    Meta(
        extra_json_schema={
            "maxLength": CORRELATION_ID_LENGTH_MAX,
            "pattern": f"^[^{UNPRINTABLE}]*$",
            "examples": ["order-42", ""],
        }
    ),
]
"""As CorrelationId, or empty for none."""
ClearableUrl = Annotated[
    str,
    Meta(
        extra_json_schema={
            "maxLength": CALLBACK_URL_LENGTH_MAX,
            "pattern": "^([Hh][Tt][Tt][Pp][Ss]?://|$)",
            "examples": ["https://example.com/hook", ""],
        }
    ),
]
"""As CallbackUrl, or empty for none."""

_TEXT = Annotated[str, Meta(extra_json_schema={"pattern": _DURATION, "examples": ["90s", "10m"]})]
Duration = Annotated[float, _between(0, DURATION_MAX)] | _TEXT
"""Seconds, or text such as "90s"."""
LeaseTtl = Annotated[float, _between(LEASE_TTL_MIN, DURATION_MAX)] | _TEXT
ClaimTimeout = Annotated[float, _between(0, HTTP_WAIT_MAX)] | _TEXT

QueryDuration = Annotated[
    str,
    Meta(
        extra_json_schema={
            "pattern": rf"^([0-9]+(\.[0-9]+)?|{_DURATION[1:-1]})$",
            "examples": ["90s", "10m", "0.5"],
        }
    ),
]
"""As Duration, in a query, where all is text."""
Cursor = Annotated[str, Meta(extra_json_schema={"minLength": 1, "pattern": "^[A-Za-z0-9_-]+$"})]
"""The ``next`` of a page; nobody else makes one."""

PriorityNumber = Annotated[int, _between(min(Priority), max(Priority))]
PriorityName = Annotated[
    str, Meta(extra_json_schema={"enum": [priority.name.lower() for priority in Priority]})
]
AttemptCount = Annotated[int, _between(1, ATTEMPTS_MAX)]
RetryCount = Annotated[int, _between(0, ATTEMPTS_MAX - 1)]
Multiplier = Annotated[float, _between(1, 1_000)]
Jitter = (
    Literal["full"]
    | Annotated[float, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": 1})]
)
Fraction = Annotated[float, _between(0, 1)]

JobId = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
DependencyIds = Annotated[list[str], _at_most(DEPENDENCY_COUNT_MAX)]

PageLimit = Annotated[int, _between(1, PAGE_MAX)]
ClaimLimit = Annotated[int, _between(1, CLAIM_MAX)]
RunningLimit = Annotated[int, _between(1, RUNNING_MAX)]
TickCount = Annotated[int, _between(1, CRON_NEXT_MAX)]
Weight = Annotated[int, _between(1, WEIGHT_MAX)]

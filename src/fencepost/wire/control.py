"""Steering jobs: cancel, retry, edit."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec
from msgspec import UNSET

from fencepost.wire.bodies import Base64, Json
from fencepost.wire.search import StateName
from fencepost.wire.terms import (
    ClearableId,
    ClearableUrl,
    CorrelationId,
    Duration,
    PriorityName,
    PriorityNumber,
    QueueName,
    Tags,
    TypeName,
)


class Selection(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Conditions, all of which a job must meet; at least one."""

    __some__: ClassVar = (
        "state",
        "type",
        "queue",
        "tags",
        "correlation_id",
        "flow",
        "created_after",
        "created_before",
    )

    state: list[StateName] = []
    type: TypeName | None = None
    queue: QueueName | None = None
    tags: Tags = {}
    correlation_id: CorrelationId | None = None
    flow: CorrelationId | None = None
    """The id of a flow."""
    created_after: datetime | None = None
    """Submitted at this time or later."""
    created_before: datetime | None = None
    """Submitted earlier than this."""
    dry_run: bool = False
    """Only count them."""


class Cancelled(msgspec.Struct, frozen=True):
    """How many jobs were cancelled; or, of a dry run, how many would be."""

    count: int
    dry_run: bool = False


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How to run a job again; one that is delayed or retrying becomes due."""

    reset_attempts: bool = True
    """Whether it has all of its attempts again."""
    delay: Duration = 0.0
    priority: PriorityNumber | PriorityName | None = None


class EditBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What may be changed of a job; what is left out stays as it is.

    Tags may change at any time, the rest while the job waits.
    """

    priority: PriorityNumber | PriorityName | None = None
    """Reaches those that wait for the job and have inherited its priority."""
    tags: Tags | None = None
    """All that it is to have: these take the place of those it has."""
    run_at: datetime | None = None
    """A time with its zone; one that has come means now."""
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    """A payload that is no JSON; give one of the two."""
    correlation_id: ClearableId | None = None
    """Empty: none any more."""
    callback_url: ClearableUrl | None = None
    """Empty: none any more."""
    type: TypeName | None = None
    """Another than it has is refused with 409: submit a new job, and cancel this one."""
    queue: QueueName | None = None
    """As ``type``."""

"""Looking at jobs: what a search asks for, and what it is answered with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from fencepost.core.bounds import HTTP_WAIT_DEFAULT, PAGE_DEFAULT
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt
from fencepost.core.job.lifecycle import COARSE, State
from fencepost.core.job.why import Reason
from fencepost.wire.bodies import Base64, Json
from fencepost.wire.terms import (
    CorrelationId,
    Cursor,
    PageLimit,
    QueryDuration,
    QueueName,
    TypeName,
)

StateName = Annotated[str, Meta(extra_json_schema={"enum": sorted({*State, *COARSE.values()})})]
TagText = Annotated[str, Meta(extra_json_schema={"pattern": "^[^:]+:."})]


class JobSearch(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Conditions, all of which a job must meet; and a page of those that do."""

    state: list[StateName] = []
    """Any of these; ``in_flight`` and ``succeeded`` are other words for states."""
    type: TypeName | None = None
    queue: QueueName | None = None
    tag: list[TagText] = []
    """``name:value`` each; the first colon divides them, and one in the name is ``%3A``."""
    correlation_id: CorrelationId | None = None
    flow: CorrelationId | None = None
    """The id of a flow."""
    created_after: datetime | None = None
    """Submitted at this time or later."""
    created_before: datetime | None = None
    """Submitted earlier than this."""
    after: Cursor | None = None
    """The ``next`` of the page before."""
    limit: PageLimit = PAGE_DEFAULT


class CountQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Conditions by which jobs are counted anyway."""

    state: list[StateName] = []
    """Any of these; ``in_flight`` and ``succeeded`` are other words for states."""
    type: TypeName | None = None
    queue: QueueName | None = None


class JobCount(msgspec.Struct, frozen=True):
    """How many jobs meet the conditions."""

    count: int


class Wait(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long to wait at the most, as seconds or text such as ``10s``."""

    timeout: QueryDuration = f"{HTTP_WAIT_DEFAULT:g}s"


class Attempts(msgspec.Struct, frozen=True):
    """Every attempt, oldest first."""

    attempts: list[Attempt]


class History(msgspec.Struct, frozen=True):
    """The states that a job has been in, oldest first."""

    history: list[Change]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended, and what its handler returned."""

    id: str
    state: State
    result: Json = UNSET
    result_base64: Base64 = UNSET
    result_encrypted: str | UnsetType = UNSET


class Reasons(msgspec.Struct, frozen=True):
    """Why a job is where it is, what matters most first."""

    reasons: list[Reason]


class StreamQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which jobs to tell of, and from when on."""

    state: list[str] = []
    type: str | None = None
    queue: str | None = None
    since: datetime | None = None
    """Tell of what ended from then on, too; not needed with ``Last-Event-ID``."""

"""Requests that find, look at and steer jobs and dead letters, and their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.filter import JobOrder
from fencepost.core.job.checks import Check
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt, DeadLetter
from fencepost.core.job.lifecycle import COARSE, State
from fencepost.core.job.why import Reason
from fencepost.core.refusals import RefusedWrite
from fencepost.wire.bodies import Base64, Json
from fencepost.wire.bounds import HTTP_BATCH_MAX, HTTP_WAIT_DEFAULT
from fencepost.wire.terms import (
    TAG_PATTERN,
    ClearableId,
    ClearableUrl,
    CorrelationId,
    Cursor,
    Duration,
    ErrorText,
    IdPrefix,
    JobId,
    PageLimit,
    PriorityName,
    PriorityNumber,
    PriorityText,
    QueryDuration,
    QueueName,
    SearchedKey,
    Strict,
    Tags,
    TypeName,
    WhereTexts,
)

StateName = Annotated[str, Meta(extra_json_schema={"enum": sorted({*State, *COARSE.values()})})]
TagText = Annotated[str, Meta(extra_json_schema={"pattern": TAG_PATTERN})]


class PageQuery(Strict, frozen=True, kw_only=True):
    """Which page of a list."""

    after: Cursor | None = None
    """The ``next`` of the previous page."""
    limit: PageLimit = PAGE_DEFAULT


class JobConditions(Strict, frozen=True, kw_only=True):
    """All that a search and a selection have in common.

    For ``error``, ``where`` and the priority there is no index: jobs that meet the other
    conditions are read one by one, up to 10,000 for an answer, which says how many it has read.
    """

    state: list[StateName] = field(default_factory=list)
    """Any of these; ``in_flight`` and ``succeeded`` each stand for states."""
    type: TypeName | None = None
    queue: QueueName | None = None
    correlation_id: CorrelationId | None = None
    flow: CorrelationId | None = None
    """The id of a flow."""
    id_prefix: IdPrefix | None = None
    """The beginning of the job's id."""
    created_after: datetime | None = None
    """Submitted at this time or later."""
    created_before: datetime | None = None
    """Submitted earlier than this."""
    key: SearchedKey | None = None
    """The idempotency key; of each type, only the last job that was submitted with it is found."""
    error: ErrorText | None = None
    """Part of the message of its last failure, or its code, category or class; in any case."""
    where: WhereTexts = field(default_factory=list)
    """What it carries, such as ``payload.user.id=42``: a path in its payload, result, checkpoint,
    progress or failure, one of ``= != < <= > >=``, and a value; all must hold."""


class CountQuery(JobConditions, frozen=True, kw_only=True):
    """Conditions that a job must all meet."""

    tag: list[TagText] = field(default_factory=list)
    """``name:value`` each; the first colon separates them; write one in the name as ``%3A``."""
    priority: list[PriorityText] = field(default_factory=list)
    """Any of these."""


class JobSearch(CountQuery, frozen=True, kw_only=True):
    """Conditions that a job must all meet, and which page of the jobs that do."""

    order: JobOrder = "newest"
    """Which come first, by when they were submitted."""
    after: Cursor | None = None
    """The ``next`` of the previous page, in the same order."""
    limit: PageLimit = PAGE_DEFAULT


class JobCount(msgspec.Struct, frozen=True):
    """How many jobs meet the conditions."""

    count: int
    at_least: bool = False
    """Whether there may be more: 10,000 were counted or read, and not all."""
    looked: int | None = None
    """How many jobs were read for conditions without an index; null if none had to be."""
    unreadable: int = 0
    """How many of those could not be compared, being encrypted or not JSON; they do not count."""


class Wait(Strict, frozen=True, kw_only=True):
    """How long to wait at most, as seconds or text such as ``10s``."""

    timeout: QueryDuration = f"{HTTP_WAIT_DEFAULT:g}s"


class Attempts(msgspec.Struct, frozen=True):
    """Every attempt, oldest first."""

    attempts: list[Attempt]


class History(msgspec.Struct, frozen=True):
    """The states that a job has been in, oldest first."""

    history: list[Change]


class WireRefusal(RefusedWrite, frozen=True, kw_only=True):
    """A write that was refused, and who tried it."""

    worker: str | None
    """The worker that had the stale lease; null if that is not known."""


class RefusedWrites(msgspec.Struct, frozen=True):
    """The last writes to a job that were refused, at most 10, the newest first."""

    refusals: list[WireRefusal]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended, and what its handler returned."""

    id: str
    state: State
    result: Json = UNSET
    result_base64: Base64 = UNSET
    result_encrypted: str | UnsetType = UNSET


class Reasons(msgspec.Struct, frozen=True):
    """Why a job is where it is, the main reason first."""

    reasons: list[Reason]
    checks: list[Check] = field(default_factory=list)
    """What was looked at for a waiting job, unmet first; empty for one that runs or has ended."""


class StreamQuery(Strict, frozen=True, kw_only=True):
    """Which jobs to report, and from when on."""

    state: list[str] = field(default_factory=list)
    type: str | None = None
    queue: str | None = None
    since: datetime | None = None
    """Also report jobs that ended since then; not needed with ``Last-Event-ID``."""


class Selection(JobConditions, frozen=True, kw_only=True):
    """Conditions that a job must all meet; at least one."""

    __some__: ClassVar = ("ids", "tags", "priorities", *JobConditions.__struct_fields__)
    __exclusive__: ClassVar = tuple(("ids", name) for name in __some__[1:])

    tags: Tags = field(default_factory=dict)
    priorities: list[PriorityNumber | PriorityName] = field(default_factory=list)
    """Any of these."""
    ids: (
        Annotated[list[JobId], Meta(min_length=1, extra_json_schema={"maxItems": HTTP_BATCH_MAX})]
        | None
    ) = None
    """Those of these jobs; other conditions are then not allowed."""
    dry_run: bool = False
    """Only count them."""
    expected: Annotated[int, Meta(ge=0)] | None = None
    """Refuse with 409 if there are more than these and a tenth of them."""


class RetrySelection(Selection, frozen=True, kw_only=True):
    """Jobs to run again: ended without success, or, if a state says so, delayed or retrying."""

    reset_attempts: bool = True
    """Whether their attempts are counted from the start again."""
    delay: Duration = 0.0
    priority: PriorityNumber | PriorityName | None = None


class BulkEdits(Strict, frozen=True, kw_only=True, omit_defaults=True):
    """What to change in each job; at least one."""

    __some__: ClassVar = ("priority", "tags", "run_at")

    priority: PriorityNumber | PriorityName | None = None
    """Also changes jobs that wait for one of these and inherited its priority."""
    tags: Tags | None = None
    """These replace all tags of each job."""
    run_at: datetime | None = None
    """A time with its zone; a past one means now."""


class EditSelection(Selection, frozen=True, kw_only=True):
    """Jobs to change: those that wait, or, if only tags change, in any state."""

    edit: BulkEdits


class EditedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs were changed, or, in a dry run, would be."""

    count: int
    refused: dict[str, int] = {}
    """How many could not be, by the code with which changing one of them is refused."""
    dry_run: bool = False


class Retried(msgspec.Struct, frozen=True):
    """How many jobs are run again, or, in a dry run, would be."""

    count: int
    dry_run: bool = False


class Cancelled(msgspec.Struct, frozen=True):
    """How many jobs were cancelled, or, in a dry run, would be."""

    count: int
    dry_run: bool = False


class RetryBody(Strict, frozen=True, kw_only=True):
    """How to run a job again; one that is delayed or retrying becomes due."""

    reset_attempts: bool = True
    """Whether its attempts are counted from the start again."""
    delay: Duration = 0.0
    priority: PriorityNumber | PriorityName | None = None


class EditBody(Strict, frozen=True, kw_only=True):
    """What to change in a job; a field that is left out stays as it is.

    Tags can change at any time, the rest while the job waits.
    """

    priority: PriorityNumber | PriorityName | None = None
    """Also changes jobs that wait for this one and inherited its priority."""
    tags: Tags | None = None
    """These replace all tags of the job."""
    run_at: datetime | None = None
    """A time with its zone; a past one means now."""
    payload: Json = UNSET
    payload_base64: Base64 = UNSET
    """A payload that is not JSON; give one of the two."""
    correlation_id: ClearableId | None = None
    """Empty: remove it."""
    callback_url: ClearableUrl | None = None
    """Empty: remove it."""
    type: TypeName | None = None
    """Any other than the present one is refused with 409: submit a new job and cancel this one."""
    queue: QueueName | None = None
    """As ``type``."""


class LetterConditions(Strict, frozen=True, kw_only=True):
    """Which dead letters; all conditions must be met."""

    type: TypeName | None = None
    queue: QueueName | None = None
    since: datetime | None = None
    """Dead at this time or later."""
    until: datetime | None = None
    """Dead earlier than this."""


class GroupedConditions(LetterConditions, frozen=True, kw_only=True):
    """The same, and of which group."""

    group: str | None = None
    """The id of a group of ``GET /v1/dead-letters/groups``."""

    @property
    def is_looked_up(self) -> bool:
        """Whether the store cannot answer it by itself: the newest 10,000 are looked at."""
        return any(each is not None for each in (self.queue, self.since, self.until, self.group))


class DeadLetterQuery(GroupedConditions, frozen=True, kw_only=True):
    """Conditions, and which page. With others than ``type``, the newest 10,000 are looked at."""

    after: Cursor | None = None
    """The ``next`` of the previous page."""
    limit: PageLimit = PAGE_DEFAULT


class WireDeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, the most recent first, and where the next page begins."""

    dead_letters: list[DeadLetter]
    next: str | None


class ReplayAll(GroupedConditions, frozen=True, kw_only=True):
    """Which dead letters to replay; at most ``limit`` of them, the most recent.

    With more than ``type`` and ``limit``, the newest 10,000 are looked at.
    """

    limit: Annotated[int, Meta(ge=1)] | None = None
    """Also to try a sample first."""
    ids: Annotated[list[JobId], Meta(extra_json_schema={"maxItems": HTTP_BATCH_MAX})] | None = None
    """Only those of these jobs."""
    patch: dict[str, msgspec.Raw] = field(default_factory=dict)
    """Fields that replace those of each payload. One that is not an object is not replayed."""
    dry_run: bool = False
    """Only count them."""
    expected: Annotated[int, Meta(ge=0)] | None = None
    """Refuse with 409 if there are more than these and a tenth of them."""

    @property
    def is_selective(self) -> bool:
        """Whether it asks for more than a type and a limit."""
        more = (self.ids is not None, self.patch, self.dry_run, self.expected is not None)
        return self.is_looked_up or any(more)


class DiscardAll(GroupedConditions, frozen=True, kw_only=True):
    """Which dead letters to discard; at least one condition. The newest 10,000 are looked at."""

    __some__: ClassVar = GroupedConditions.__struct_fields__

    dry_run: bool = False
    """Only count them."""
    expected: Annotated[int, Meta(ge=0)] | None = None
    """Refuse with 409 if there are more than these and a tenth of them."""


class WireDiscarded(msgspec.Struct, frozen=True):
    """How many dead letters were discarded, or, in a dry run, would be."""

    count: int
    dry_run: bool = False


class WireReplayed(msgspec.Struct, frozen=True):
    """How many dead letters were replayed, or, in a dry run, would be."""

    count: int
    dry_run: Literal[True] | UnsetType = UNSET

"""What workers hold now, and names to complete in a filter."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fencepost.core.bounds import PAGE_DEFAULT, TYPE_LENGTH_MAX
from fencepost.wire.terms import JobId, PageLimit, QueueName, Strict


class LeaseQuery(Strict, frozen=True, kw_only=True):
    """Whose leases, and how many at most."""

    worker: str | None = None
    queue: QueueName | None = None
    limit: PageLimit = PAGE_DEFAULT


class HeldLease(msgspec.Struct, frozen=True, kw_only=True):
    """A running job and the lease under which it runs."""

    job_id: JobId
    type: str
    queue: str
    attempt: int
    worker: str
    fence: int
    """The version of the lease."""
    started_at: datetime | None
    expires_at: datetime
    is_expired: bool
    """True between the end of the lease and its recovery."""


class HeldLeases(msgspec.Struct, frozen=True, kw_only=True):
    """Leases, those that end first at the top."""

    leases: list[HeldLease]
    is_complete: bool
    """False if more than 1,000 jobs run, of which the newest were looked at."""


class CompletionQuery(Strict, frozen=True, kw_only=True):
    """Names of what, how they begin, and how many at most."""

    field: Literal["queue", "type", "worker"]
    prefix: Annotated[str, Meta(extra_json_schema={"maxLength": TYPE_LENGTH_MAX})] = ""
    limit: PageLimit = 20


class Completions(msgspec.Struct, frozen=True):
    """Names: those that begin as asked for first, then those that have it elsewhere."""

    values: list[str]

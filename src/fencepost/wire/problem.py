"""Problem documents (RFC 9457), the answer to a request that is refused."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, for programs (``code``) and for people (``detail``)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    job_id: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    """The state of the job, if that is why."""
    existing: str | UnsetType = UNSET
    """The job that holds the idempotency key."""
    differs: tuple[str, ...] | UnsetType = UNSET
    """Where its payload differs from the one that was sent, such as ``$.subject``."""
    size: int | UnsetType = UNSET
    """The size of a payload that is too large, in bytes."""
    limit: int | UnsetType = UNSET
    """The largest size allowed."""
    retry_after: float | UnsetType = UNSET
    """Seconds after which a repeat may succeed."""

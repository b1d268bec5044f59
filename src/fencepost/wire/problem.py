"""Problem documents (RFC 9457): what is answered when something is refused."""

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
    """The state of the job that forbade it."""
    existing: str | UnsetType = UNSET
    """The job that holds the idempotency key."""
    size: int | UnsetType = UNSET
    """Of a payload that is too large, in bytes."""
    limit: int | UnsetType = UNSET
    """How large it may be."""
    retry_after: float | UnsetType = UNSET
    """In so many seconds it is worth asking again."""

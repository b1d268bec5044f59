"""Refused writes: what a worker tried to write about a job that it no longer owned.

A refusal changes nothing, and neither does its record: it is there for people to look at.
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class NewRefusal(msgspec.Struct, frozen=True):
    """A write that was refused, as the process knows that tried it."""

    job_id: str
    operation: str
    """``ack``, ``nack``, ``release``, ``heartbeat``, ``save`` or ``spawn``."""
    fence_held: int | None = None
    """The version of the lease that it was tried under; None if the process does not know it."""


class RefusedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that was refused."""

    at: datetime
    operation: str
    """``ack``, ``nack``, ``release``, ``heartbeat``, ``save`` or ``spawn``."""
    fence_held: int | None
    """The version of the stale lease; null if it is not known, as of workers over HTTP."""
    fence_present: int
    """The version of the last lease of the job at that time; the same, if nobody has claimed it
    since the stale lease ended."""

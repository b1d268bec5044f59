"""Runs of crons: their jobs carry the name of the cron in a tag, by which they are found."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.job.idempotency import CRON_KEYS
from fencepost.core.job.job import Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.values.names import RESERVED_TAGS

CRON_TAG = f"{RESERVED_TAGS}cron"


class CronRun(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a cron."""

    job_id: str
    state: State
    tick: datetime | None
    """Null if it was submitted by hand."""
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


def marked(job: NewJob, cron: str) -> NewJob:
    """Return *job* as one of *cron*."""
    return msgspec.structs.replace(job, tags={**job.tags, CRON_TAG: cron})


def run_of(job: Job, cron: str) -> CronRun:
    """Return *job*, which has the tag of *cron*, as a run."""
    return CronRun(
        job_id=job.id,
        state=job.state,
        tick=_tick(job.key or "", f"{CRON_KEYS}{cron}:"),
        created_at=job.created_at,
        started_at=job.started_at,
        ended_at=job.completed_at,
    )


def _tick(key: str, prefix: str) -> datetime | None:
    try:
        return datetime.fromisoformat(key.removeprefix(prefix)) if key.startswith(prefix) else None
    except ValueError:
        return None

"""Answers to whatever stored a job."""

from __future__ import annotations

from fencepost.actions.backend import KnownJob
from fencepost.http.request.call import Reply
from fencepost.wire.jobs import Accepted


def accepted(job: KnownJob) -> Accepted:
    """Return a job that is stored, or that a key returned, as the wire has it."""
    is_duplicate = getattr(job, "duplicate", False)
    return Accepted(id=job.id, type=job.type, state=job.state, duplicate=is_duplicate)


def created(job: KnownJob) -> Reply:
    """Answer with a job that is stored, and where to find it."""
    return Reply(accepted(job), 201, {"location": f"/v1/jobs/{job.id}"})

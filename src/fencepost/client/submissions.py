"""Submitting over HTTP, so that a job is stored once though an answer may be lost.

A single submission that was given no key is sent with one of its own: when the answer does not
come, the same is sent again, and returns what the first has stored. Its key is random and known to
nobody, so that whatever it returns is the job that was meant, and no duplicate. The jobs of a bulk
are not given any, which would make it half as fast: they have the keys that their caller gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.actions.script import Script
from fencepost.client.exchange import JOBS, post
from fencepost.client.options import repeat_for
from fencepost.core.bounds import HTTP_BATCH_MAX
from fencepost.core.display import shown
from fencepost.errors import InvalidJobError
from fencepost.wire.jobs import Accepted, Batch, Submission

if TYPE_CHECKING:
    from fencepost.client.session import RemoteSession


def submit(session: RemoteSession, job: Submission) -> Script[Accepted]:
    """Store a job, once."""
    sent = keyed(session, job)
    request = post(JOBS, body=sent, repeat_for=repeat_for(sent))
    return _own(job, (yield from session.read(request, Accepted)))


def submit_all(session: RemoteSession, jobs: Sequence[Submission]) -> Script[list[Accepted]]:
    """Store many jobs, all or none; sent again after a lost answer only if all have keys."""
    if not jobs:
        return []
    safe = min(repeat_for(job) for job in jobs)
    request = post(JOBS, "batch", body=Batch(jobs=list(jobs), atomic=True), repeat_for=safe)
    return (yield from session.read(request, list[Accepted], "jobs"))


def keyed(session: RemoteSession, job: Submission) -> Submission:
    """Return *job* with a key: its own, or a random one."""
    if job.key is not None:
        return job
    key = f"client:{session.clock.new_token()}"
    return replace(job, key=key, key_window=session.key_window, on_duplicate="return")


def _own(job: Submission, reply: Accepted) -> Accepted:
    return replace(reply, duplicate=False) if job.key is None else reply


def check_batch(jobs: Iterable[Submission]) -> list[Submission]:
    """Return *jobs* if they are not too many for one request, and all are prepared."""
    found = list(jobs)
    if len(found) > HTTP_BATCH_MAX:
        raise InvalidJobError(
            f"submit at most {HTTP_BATCH_MAX:,} jobs in one call (all or none are stored), "
            f"got {len(found):,}; split them"
        )
    for job in found:
        if not isinstance(job, Submission):
            raise InvalidJobError(
                f"submit_many takes what prepare() of a client's task returns, got {shown(job)}"
            )
    return found

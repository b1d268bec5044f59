"""From what a store answers to a submission to what its caller is given."""

from __future__ import annotations

from fencepost.actions.backend import StoredJob
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.replies import Duplicate, EnqueueReply


def stored(reply: EnqueueReply) -> StoredJob:
    """Return the job that is stored, or that a key returned."""
    return StoredJob(reply.job_id, reply.type, reply.state, isinstance(reply, Duplicate))


def accepted(reply: EnqueueReply) -> StoredJob:
    """As ``stored``, but raise if it is a duplicate that asked to be rejected."""
    if isinstance(reply, Duplicate) and reply.is_rejected:
        raise DuplicateJobError(type=reply.type, key=reply.key, existing_id=reply.job_id)
    return stored(reply)

"""Ends of attempts: the only code that takes a lease off a job.

Settling, recovering, expiring and cancelling all come through here, so that the lease goes, the
attempt is recorded and the state changes together.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import DEAD, Event, State
from fencepost.core.job.outcome import Decision
from fencepost.core.values.payload import NULL
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.queue import Moved
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.sql.codec import encode_failure


class KeptEnding(NamedTuple):
    """A job, how its attempt ends, and the token that settles it; None if it was not its worker."""

    kept: Kept
    decision: Decision
    settled_token: str | None = None


def end(unit: Unit, ending: KeptEnding) -> Moved:
    """Apply a decision to a job; return its move."""
    kept, decision, token = ending
    was, now = kept.state, unit.now
    lease, document = kept.lease, kept.document
    since = document.created_at
    state = decision.state
    if lease is not None:
        document.attempt = lease.attempt
        document.lease_version = lease.version
        document.started_in = lease.started_at - since
        if decision.outcome is not AttemptOutcome.SUCCEEDED:
            unit.record(
                kept,
                (
                    lease.version,
                    lease.attempt,
                    lease.worker,
                    decision.outcome.value,
                    lease.started_at,
                    now,
                    encode_failure(decision.failure),
                ),
            )
    kept.lease = None
    if decision.event is Event.SUCCEED:
        assert lease is not None
        document.worker = lease.worker
        document.failure = None
        document.settled_token = token
        unit.put_body("result", kept, decision.result or NULL)
    else:
        document.worker = None
        if not decision.is_counted:
            document.attempt -= 1
        if state in (State.RETRYING, State.DELAYED):
            document.run_at = min(now + seconds_to_us(decision.delay), document.expires_at)
        if state is State.SCHEDULED:
            document.scheduled_at = now
        document.is_dead_letter = state in DEAD
        if decision.failure is not None:
            kept.set_failure(decision.failure)
        if token is not None:
            document.settled_token = token
    document.completed_in = now - since if state.is_terminal else None
    document.updated_in = now - since
    kept.set_state(state)
    return Moved(kept.id, kept.type, state, was)

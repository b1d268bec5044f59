"""Moving jobs: detached from their tables, decided on by ``core``, and attached again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from fencepost.core.bounds import FOLLOW_BATCH
from fencepost.core.job.job import AttemptOutcome
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.outcome import Decision
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.queue import portions
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import json_fields
from fencepost.store.sql.codec import BY_NUMBER, NUMBER, encode_failure
from fencepost.store.sql.endings import Ending

DETACHED = """
select seq, id::text, lane, policy, state, attempt, max_attempts, lease_version, run_at::text,
  scheduled_at::text, expires_at::text, lease_token::text, worker, started_at::text,
  is_overdue
"""
DETACH = f"{DETACHED} from fencepost.detach(%s)"
DETACH_AWAITED = f"{DETACHED} from fencepost.detach_awaited(%s)"
DETACH_PENDING = f"{DETACHED} from fencepost.detach_pending(%s)"
DETACH_LEASED = f"{DETACHED} from fencepost.detach_leased(%s, %s)"
DETACH_EXPIRED = f"{DETACHED} from fencepost.detach_expired(%s, %s)"
DETACH_DONE = f"{DETACHED} from fencepost.detach_done(%s)"
ATTACH = "select fencepost.attach(%s, %s)::text"

_encoder = msgspec.json.Encoder()
_freed = msgspec.json.Decoder(list[tuple[int, int]])


class DetachedJob(NamedTuple):
    """A job outside of any table. Its times stay as the server wrote them."""

    seq: int
    job_id: str
    lane: int
    policy: int
    number: int
    """The state that it was in."""
    attempt: int
    max_attempts: int
    lease_version: int
    run_at: str
    scheduled_at: str | None
    expires_at: str
    lease_token: str | None
    worker: str | None
    started_at: str | None
    is_overdue: bool | None
    """Of a running job: whether its lease lasted until its deadline."""

    @property
    def state(self) -> State:
        return BY_NUMBER[self.number]


DetachedEnding = Ending[DetachedJob]


def detached(rows: Iterable[Row]) -> list[DetachedJob]:
    """Return what a DETACH statement detached."""
    return [DetachedJob(*row) for row in rows]


def attach(env: Env, jobs: Sequence[dict[str, Any]]) -> Plan[list[tuple[int, int]]]:
    """Store detached jobs, as ``fencepost.attach`` reads them; return the slots to admit to."""
    freed: list[tuple[int, int]] = []
    for portion in portions(jobs, FOLLOW_BATCH):
        ((text,),) = yield Statement(ATTACH, (env.now, _encoder.encode(portion).decode()))
        freed += [] if text is None else _freed.decode(text)
    return freed


def attach_ended(env: Env, endings: Sequence[DetachedEnding]) -> Plan[list[tuple[int, int]]]:
    """Store jobs whose attempt or life has ended; return the slots to admit to."""
    return (yield from attach(env, [_ended(*ending) for ending in endings]))


def _ended(job: DetachedJob, decision: Decision, settled_token: str | None) -> dict[str, Any]:
    state = decision.state
    is_recorded = job.state is State.RUNNING and decision.outcome is not AttemptOutcome.SUCCEEDED
    fields: dict[str, Any] = {
        **placed(job, state),
        "attempt": job.attempt if decision.is_counted else job.attempt - 1,
        "number": job.attempt,
        "lease_token": settled_token,
        "outcome": decision.outcome.value if is_recorded else None,
        "failure": encode_failure(decision.failure),
        "is_dead_letter": True if state in DEAD else None,
        **json_fields("result", decision.result),
    }
    if state is State.SCHEDULED:
        fields["is_in_line"] = True
    if state in (State.RETRYING, State.DELAYED):
        fields["delay"] = seconds_to_us(decision.delay)
    if state is State.COMPLETED:
        fields["worker"] = job.worker
    return fields


def placed(job: DetachedJob, state: State) -> dict[str, Any]:
    """Return the fields of *job* in another state."""
    return {
        "seq": job.seq,
        "lane": job.lane,
        "was_lane": job.lane,
        "state": NUMBER[state],
        "was": job.number,
        "attempt": job.attempt,
        "lease_version": job.lease_version,
        "run_at": job.run_at,
        "scheduled_at": job.scheduled_at,
        "expires_at": job.expires_at,
        "worker": job.worker,
        "started_at": job.started_at,
    }

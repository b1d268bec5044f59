"""Moving jobs: lifted from where they stand, decided upon in Python, and put down again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from fencepost.core.bounds import FOLLOW_BATCH
from fencepost.core.job.job import AttemptOutcome, Body
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.outcome import Decision
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.interface.batches import portions
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import body_fields
from fencepost.store.sql.codes import BY_NUMBER, NUMBER
from fencepost.store.sql.texts import encode_failure

STANDING = """
select seq, id::text, lane, policy, state, attempt, max_attempts, version, run_at::text,
  scheduled_at::text, expires_at::text, secret::text, worker, started_at::text,
  is_overdue
"""
LIFT = f"{STANDING} from fencepost.lift(%s)"
LIFT_PENDING = f"{STANDING} from fencepost.lift_pending(%s)"
LIFT_LEASED = f"{STANDING} from fencepost.lift_leased(%s, %s)"
LIFT_EXPIRED = f"{STANDING} from fencepost.lift_expired(%s, %s)"
LIFT_DONE = f"{STANDING} from fencepost.lift_done(%s)"
PUT = "select fencepost.put(%s, %s)::text"

_encoder = msgspec.json.Encoder()
_touched = msgspec.json.Decoder(list[tuple[int, int]])


class Standing(NamedTuple):
    """A lifted job. Its times pass through as the server wrote them."""

    seq: int
    job_id: str
    lane: int
    policy: int
    number: int
    """The state that it was in."""
    attempt: int
    max_attempts: int
    version: int
    run_at: str
    scheduled_at: str | None
    expires_at: str
    secret: str | None
    worker: str | None
    started_at: str | None
    is_overdue: bool | None
    """Of a running one: whether its lease lasts until its deadline."""

    @property
    def state(self) -> State:
        return BY_NUMBER[self.number]


class Ending(NamedTuple):
    """A lifted job, what becomes of it, and whether it was settled by its own worker."""

    job: Standing
    decision: Decision
    is_settled: bool = False


def lifted(rows: Iterable[Row]) -> list[Standing]:
    """Return what a LIFT statement lifted."""
    return [Standing(*row) for row in rows]


def put(env: Env, jobs: Sequence[dict[str, Any]]) -> Plan[list[tuple[int, int]]]:
    """Put jobs down, as ``fencepost.put`` understands them; return the slots to admit to."""
    touched: list[tuple[int, int]] = []
    for portion in portions(jobs, FOLLOW_BATCH):
        ((text,),) = yield Statement(PUT, (env.now, _encoder.encode(portion).decode()))
        touched += [] if text is None else _touched.decode(text)
    return touched


def put_ended(env: Env, endings: Sequence[Ending]) -> Plan[list[tuple[int, int]]]:
    """Put down jobs whose attempt, or whose life, has ended; return the slots to admit to."""
    return (yield from put(env, [_ended(*ending) for ending in endings]))


def _ended(job: Standing, decision: Decision, is_settled: bool) -> dict[str, Any]:
    state = decision.state
    is_recorded = job.state is State.RUNNING and decision.outcome is not AttemptOutcome.SUCCEEDED
    fields: dict[str, Any] = {
        **placed(job, state),
        "attempt": job.attempt if decision.is_counted else job.attempt - 1,
        "number": job.attempt,
        "secret": job.secret if is_settled else None,
        "outcome": decision.outcome.value if is_recorded else None,
        "failure": encode_failure(decision.failure),
        "is_dead_letter": True if state in DEAD else None,
        **result_fields(decision.result),
    }
    if state is State.SCHEDULED:
        fields["is_in_line"] = True
    if state in (State.RETRYING, State.DELAYED):
        fields["delay"] = seconds_to_us(decision.delay)
    if state is State.COMPLETED:
        fields["worker"] = job.worker
    return fields


def placed(job: Standing, state: State) -> dict[str, Any]:
    """Return *job* as it stands, in another state."""
    return {
        "seq": job.seq,
        "lane": job.lane,
        "was_lane": job.lane,
        "state": NUMBER[state],
        "was": job.number,
        "attempt": job.attempt,
        "version": job.version,
        "run_at": job.run_at,
        "scheduled_at": job.scheduled_at,
        "expires_at": job.expires_at,
        "worker": job.worker,
        "started_at": job.started_at,
    }


def result_fields(result: Body | None) -> dict[str, Any]:
    """Return a result as ``fencepost.put`` understands it."""
    if result is None:
        return {}
    encoding, text, data = body_fields(result)
    digits = None if data is None else data.hex()
    return {"encoding": encoding, "result": text, "result_hex": digits}

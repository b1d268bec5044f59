"""Storing new jobs: those that differ in payload only by the thousand, those with a key singly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from fencepost.core.idempotency import OnDuplicate
from fencepost.core.ids import id_text
from fencepost.core.instants import seconds_to_us
from fencepost.core.job import NewJob
from fencepost.errors import DuplicateJobError
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.catalog import Env
from fencepost.store.postgres.rows import body_fields, plain_json
from fencepost.store.replies import Duplicate, Enqueued, EnqueueReply
from fencepost.store.states import BY_NUMBER

ENQUEUE = "select fencepost.enqueue(%s, %s, %s, %s, %s, %s, %s, %s, %s)"
ENQUEUE_EACH = "select fencepost.enqueue_each(%s, %s)::text"
CHUNK = 5_000
"""Jobs in one statement."""

_encoder = msgspec.json.Encoder()
_replies = msgspec.json.Decoder(list[tuple[int, str | None]])


class _Drawn(NamedTuple):
    """A new job with its id and its numbers."""

    job: NewJob
    id_: bytes
    lane: int
    policy: int
    payload: str | None
    """Its payload, if it is as plain as most; None for a job that is enqueued singly."""

    @property
    def kind(self) -> tuple[Any, ...]:
        """What jobs have in common that share a statement."""
        job = self.job
        return (self.payload is None, self.lane, self.policy, job.delay, job.run_at)


def enqueue(env: Env, jobs: Sequence[NewJob], *, atomic: bool) -> Plan[list[EnqueueReply]]:
    """Store *jobs* in their order, each unless its key is held."""
    numbers = yield from env.catalog.number(jobs)
    drawn: list[_Drawn] = []
    for job, id_ in zip(jobs, env.clock.new_ids(len(jobs)), strict=True):
        lane, policy = numbers.of(job)
        is_plain = job.key is None and not job.tags and job.correlation_id is None
        payload = plain_json(job.payload) if is_plain else None
        drawn.append(_Drawn(job, id_, lane, policy, payload))
    groups = [list(group) for _, group in groupby(drawn, key=lambda each: each.kind)]
    chunks = [g[n : n + CHUNK] for g in groups for n in range(0, len(g), CHUNK)]
    replies: list[EnqueueReply] = []
    for chunk in chunks:
        # A statement that is all there is to do needs no transaction around it.
        alone = len(chunks) == 1 and not atomic
        if chunk[0].payload is None:
            replies += yield from _enqueue_each(env, chunk, atomic=atomic, alone=alone)
        else:
            replies += yield from _enqueue_alike(env, chunk, alone=alone)
    return replies


def _enqueue_alike(env: Env, chunk: Sequence[_Drawn], *, alone: bool) -> Plan[list[EnqueueReply]]:
    job, _, lane, policy, _ = chunk[0]
    params = (
        env.now,
        lane,
        policy,
        job.policy.max_attempts,
        seconds_to_us(job.delay),
        job.run_at,
        seconds_to_us(job.policy.lifetime),
        "{" + ",".join([each.id_.hex() for each in chunk]) + "}",
        "[" + ",".join([each.payload or "" for each in chunk]) + "]",
    )
    ((number,),) = yield Statement(ENQUEUE, params, alone=alone)
    state = BY_NUMBER[number]
    return [Enqueued(id_text(each.id_), job.type, state) for each in chunk]


def _enqueue_each(
    env: Env, chunk: Sequence[_Drawn], *, atomic: bool, alone: bool
) -> Plan[list[EnqueueReply]]:
    fields = _encoder.encode([_fields(each) for each in chunk]).decode()
    ((text,),) = yield Statement(ENQUEUE_EACH, (env.now, fields), alone=alone)
    replies: list[EnqueueReply] = []
    for each, (number, holder) in zip(chunk, _replies.decode(text), strict=True):
        job = each.job
        if holder is None:
            replies.append(Enqueued(id_text(each.id_), job.type, BY_NUMBER[number]))
            continue
        assert job.key is not None
        is_rejected = job.key.on_duplicate is OnDuplicate.REJECT
        if atomic and is_rejected:
            raise DuplicateJobError(type=job.type, key=job.key.value, existing_id=holder)
        replies.append(Duplicate(holder, job.type, job.key.value, BY_NUMBER[number], is_rejected))
    return replies


def _fields(drawn: _Drawn) -> dict[str, Any]:
    job, key = drawn.job, drawn.job.key
    encoding, payload, data = body_fields(job.payload)
    return {
        "id": drawn.id_.hex(),
        "lane": drawn.lane,
        "type": job.type,
        "policy": drawn.policy,
        "max_attempts": job.policy.max_attempts,
        "delay": seconds_to_us(job.delay),
        "run_at": job.run_at,
        "lifetime": seconds_to_us(job.policy.lifetime),
        "key": None if key is None else key.value,
        "key_window": None if key is None or key.window is None else seconds_to_us(key.window),
        "correlation_id": job.correlation_id,
        "tags": job.tags or None,
        "encoding": encoding,
        "payload": payload,
        "payload_hex": None if data is None else data.hex(),
    }

"""Storing new jobs: in bulk if they differ only in payload, otherwise one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from fencepost.core.flows.dependencies import check_places
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.timeouts import check_due
from fencepost.core.values.names import id_of_digits, id_text
from fencepost.core.values.payload import differences
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows import enqueue as graphs
from fencepost.store.postgres.jobs.catalog import Env, JobNumbers, holder_queues, now_us
from fencepost.store.postgres.jobs.rows import decode_body, plain_json
from fencepost.store.postgres.joins.transaction import all_or_none
from fencepost.store.postgres.limits.concurrency import FreedSlots, admit
from fencepost.store.sql.codec import BY_NUMBER

ENQUEUE = "select fencepost.enqueue(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
ENQUEUE_EACH = "select fencepost.enqueue_each(%s, %s, %s)::text"
CHUNK = 2_500
"""Jobs in one statement: few enough that the server soon has the first of a bulk."""

_encoder = msgspec.json.Encoder()


class _Reply(msgspec.Struct, array_like=True):
    """What became of a job: its state, or that of the job that holds its key."""

    state: int
    holder: str | None = None
    encoding: int | None = None
    """Of the holder's payload, if that is another one; it follows unless it is large."""
    payload: str | None = None
    payload_hex: str | None = None

    def differs(self, given: Body) -> tuple[str, ...] | None:
        """Return the fields in which the holder's payload differs from *given*."""
        if self.encoding is None:
            return ()
        if self.payload is None and self.payload_hex is None:
            return ("$",)
        data = None if self.payload_hex is None else bytes.fromhex(self.payload_hex)
        return differences(decode_body(self.encoding, self.payload, data), given)


_replies = msgspec.json.Decoder(list[_Reply])


class _Batch:
    """Jobs that share a statement, their ids, and the payloads of plain ones."""

    def __init__(self, first: NewJob, lane: int, policy: int, *, is_plain: bool) -> None:
        self.first = first
        self.lane = lane
        self.policy = policy
        self.is_plain = is_plain
        self.jobs: list[NewJob] = []
        self.ids: list[bytes] = []
        self.payloads: list[str] = []
        self.digits: list[str] = []
        self.texts: tuple[str, str] = ("", "")
        """Of plain jobs: ids and payloads, as the server reads them."""

    def takes(self, job: NewJob, *, is_plain: bool) -> bool:
        """Return whether *job* can share the statement."""
        if is_plain is not self.is_plain or len(self.jobs) == CHUNK:
            return False
        # Those that are not plain have all their fields each.
        return not is_plain or _is_alike(job, self.first)

    def seal(self) -> _Batch:
        """Write its texts; it takes no more jobs."""
        if self.is_plain:
            self.digits = [id_.hex() for id_ in self.ids]
            self.texts = "{" + ",".join(self.digits) + "}", "[" + ",".join(self.payloads) + "]"
        return self


class _Batches:
    """Batches in their order, of which the next is made while the server stores the one before."""

    def __init__(self, batches: Iterator[_Batch]) -> None:
        self._batches = batches
        self._next: _Batch | None = None

    def look(self) -> None:
        """Make the next, unless it is made."""
        if self._next is None:
            self._next = next(self._batches, None)

    def take(self) -> _Batch | None:
        """Return the next, None if there are no more."""
        self.look()
        batch, self._next = self._next, None
        return batch


def enqueue(env: Env, jobs: Sequence[NewJob], *, atomic: bool = False) -> Plan[list[EnqueueReply]]:
    """Store *jobs*; in a caller's transaction, a refusal leaves that usable."""
    plan = accept(env, jobs, atomic=atomic)
    return all_or_none(plan) if env.is_joined and (atomic or graphs.is_graph(jobs)) else plan


def accept(env: Env, jobs: Sequence[NewJob], *, atomic: bool) -> Plan[list[EnqueueReply]]:
    """Store *jobs* in their order, each unless its key is held."""
    if graphs.is_graph(jobs):
        urgent = graphs.inherited(jobs)
        numbers = yield from env.catalog.number(graphs.with_delivery(urgent))
        check_places(job.after for job in jobs)
        yield from check_times(env, jobs)
        return (yield from graphs.enqueue(env, jobs, numbers, atomic=atomic))
    kinds = _kinds(jobs)
    numbers = yield from env.catalog.number(kinds)
    yield from check_times(env, kinds)
    batches = _Batches(_divided(env, jobs, numbers))
    replies: list[EnqueueReply] = []
    alone = is_plain = True
    while (batch := batches.take()) is not None:
        # A statement that is all there is to do needs no transaction around it. All or nothing has
        # one all the same: if it is cut off before the commit, it is known that nothing was stored.
        alone = not atomic and len(batch.jobs) == len(jobs)
        alone = alone and not any(_is_confined(job) for job in batch.jobs)
        is_plain = is_plain and batch.is_plain
        if batch.is_plain:
            replies += yield from _enqueue_alike(env, batch, alone=alone, meanwhile=batches.look)
        else:
            replies += yield from _enqueue_each(env, batch, numbers, atomic=atomic, alone=alone)
    return replies if is_plain else (yield from _admitted(env, jobs, replies, alone=alone))


def _divided(env: Env, jobs: Sequence[NewJob], numbers: JobNumbers) -> Iterator[_Batch]:
    """Divide *jobs* into batches, in their order."""
    batch: _Batch | None = None
    for job, id_ in zip(jobs, env.clock.new_ids(len(jobs)), strict=True):
        payload = plain_json(job.payload) if _is_plain(job) else None
        is_plain = payload is not None
        if batch is None or not batch.takes(job, is_plain=is_plain):
            if batch is not None:
                yield batch.seal()
            batch = _Batch(job, *numbers.of(job), is_plain=is_plain)
        batch.jobs.append(job)
        batch.ids.append(job.id or id_)
        if payload is not None:
            batch.payloads.append(payload)
    if batch is not None:
        yield batch.seal()


def _kinds(jobs: Sequence[NewJob]) -> list[NewJob]:
    """Leave out each job that differs from the one before in payload, key and the like alone.

    Of a bulk, one is left.
    """
    before = [None, *jobs]
    return [
        job
        for job, last in zip(jobs, before, strict=False)
        if last is None or not _is_alike(job, last)
    ]


def _is_alike(job: NewJob, other: NewJob) -> bool:
    """Return whether two jobs share lane, policy, times and submitter; mostly, the very objects."""
    return (
        (job.policy is other.policy or job.policy == other.policy)
        and job.type == other.type
        and job.queue == other.queue
        and job.priority is other.priority
        and job.delay == other.delay
        and job.run_at == other.run_at
        and job.submitter == other.submitter
    )


def check_times(env: Env, jobs: Sequence[NewJob]) -> Plan[None]:
    """Raise InvalidJobError if one of *jobs* falls due when its lifetime is over (C48).

    The server's time is read only if a job has a time to run at, and before the jobs are stored:
    whatever is too late by then would have expired. But it is read after they have their numbers,
    which are made in a separate transaction if that is the first step.
    """
    now = 0
    if any(job.run_at is not None for job in jobs):
        now = yield from now_us(env)
    for job in jobs:
        check_due(job, now)


def _is_plain(job: NewJob) -> bool:
    return (
        job.key is None
        and not job.tags
        and job.correlation_id is None
        and job.concurrency_key is None
    )


def _is_confined(job: NewJob) -> bool:
    """Return whether the queue of the job that holds its key has to be looked up."""
    return job.key is not None and job.key.within is not None


def _admitted(
    env: Env, jobs: Sequence[NewJob], replies: list[EnqueueReply], *, alone: bool
) -> Plan[list[EnqueueReply]]:
    """Admit jobs that were blocked by their keys, unless the one statement has done so."""
    if alone and not env.is_joined:
        return replies
    freed = FreedSlots()
    held = zip(jobs, replies, strict=True)
    freed.add_held(job for job, reply in held if _is_held(reply))
    entered = {moved.job_id: moved.state for moved in (yield from admit(env, freed))}
    return [
        replace(each, state=entered[each.job_id]) if each.job_id in entered else each
        for each in replies
    ]


def _is_held(reply: EnqueueReply) -> bool:
    return isinstance(reply, Enqueued) and reply.state is State.PENDING


def _enqueue_alike(
    env: Env, batch: _Batch, *, alone: bool, meanwhile: Callable[[], None]
) -> Plan[list[EnqueueReply]]:
    job = batch.first
    params = (
        env.now,
        batch.lane,
        batch.policy,
        job.policy.max_attempts,
        seconds_to_us(job.delay),
        job.run_at,
        seconds_to_us(job.policy.lifetime),
        *batch.texts,
        job.submitter,
    )
    ((number,),) = yield Statement(ENQUEUE, params, alone=alone, meanwhile=meanwhile)
    type_, state = job.type, BY_NUMBER[number]
    return [Enqueued(id_of_digits(each), type_, state) for each in batch.digits]


def _enqueue_each(
    env: Env, batch: _Batch, numbers: JobNumbers, *, atomic: bool, alone: bool
) -> Plan[list[EnqueueReply]]:
    given = list(zip(batch.jobs, batch.ids, strict=True))
    fields = [_fields(job, id_, *numbers.of(job)) for job, id_ in given]
    params = (env.now, _encoder.encode(fields).decode(), alone and not env.is_joined)
    keys = [(job.type, job.key.value) for job in batch.jobs if job.key is not None]
    ((text,),) = yield Statement(ENQUEUE_EACH, params, alone=alone, keys=keys)
    stored = _replies.decode(text)
    queues = yield from holder_queues(
        (job.key, reply.holder)
        for job, reply in zip(batch.jobs, stored, strict=True)
        if job.key is not None and reply.holder is not None
    )
    replies: list[EnqueueReply] = []
    for (job, id_), reply in zip(given, stored, strict=True):
        state, holder = BY_NUMBER[reply.state], reply.holder
        if holder is None:
            replies.append(Enqueued(id_text(id_), job.type, state))
            continue
        assert job.key is not None
        is_rejected = job.key.refuses(queues.get(holder))
        differs = reply.differs(job.payload)
        found = Duplicate(holder, job.type, job.key.value, state, is_rejected, differs)
        if atomic and is_rejected:
            raise found.error
        replies.append(found)
    return replies


def _fields(job: NewJob, id_: bytes, lane: int, policy: int) -> dict[str, Any]:
    own = graphs.job_fields(job, lane, policy, job.priority)
    return {"id": id_.hex(), "type": job.type, **own}

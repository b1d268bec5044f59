"""New jobs without dependencies and keys: stored by one call, without a read.

The server numbers them and sets the time of their creation; where they are found is computed by
``places``, with times relative to it. Jobs that need a read first (for a key, a dependency or a
lane that is new) are left to a unit of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State, first_state
from fencepost.core.values.names import id_text
from fencepost.core.values.times import seconds_to_us
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.queue import Enqueued, EnqueueReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.redis.documents.document import (
    INLINE_MAX,
    Document,
    encode_fields,
    encode_head,
    rare_fields,
)
from fencepost.store.redis.documents.places import places
from fencepost.store.redis.jobs.catalog import Env, field, pack
from fencepost.store.redis.jobs.rows import new_document
from fencepost.store.sql.records.transfer import NOT_ACCEPTED

OF_NUMBER = -1
"""Stands for the number of a job, where that is its score; times from now on are not negative."""


_COMMON = attrgetter(*(name for name in NewJob.__struct_fields__ if name != "payload"))
"""What a batch of jobs has in common, as a rule."""


class _Mould(NamedTuple):
    """What jobs that are alike have in common: all but their ids and payloads."""

    alike: object
    document: Document
    """Of the last of them."""
    after: bytes
    """Of the head."""
    rare: int
    """The fields that are not written, see ``encode_fields``."""
    shape: int
    state: State


class PlainJobs:
    """The only parameter of a statement that stores plain jobs; several can become one."""

    def __init__(self, now: bytes) -> None:
        self._now = now
        self._shapes: list[dict[str, Any]] = []
        self._known: dict[Any, int] = {}
        self._jobs: list[list[Any]] = []
        self._policies: dict[bytes, bytes] = {}
        self._mould: _Mould | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, env: Env, job: NewJob, id: bytes) -> State:
        """Add a job; return its state."""
        payload = job.payload
        apart = len(payload.data) > INLINE_MAX
        alike = (_COMMON(job), payload.encoding, apart)
        mould = self._mould
        if mould is None or mould.alike != alike:
            mould = self._mould = self._mould_of(env, job, alike)
        document = mould.document
        document.id = id
        if not apart:
            document.payload = payload.data
        row: list[Any] = [mould.shape, id, mould.after + encode_fields(document, mould.rare)]
        self._jobs.append([*row, payload.data] if apart else row)
        return mould.state

    def _mould_of(self, env: Env, job: NewJob, alike: object) -> _Mould:
        """Return what is written of *job*, and of those that follow and are like it."""
        digest, text = env.catalog.digest(job.policy)
        if digest is not None:
            self._policies[digest] = text
        run_in = seconds_to_us(job.delay)
        state = first_state(is_due=run_in <= 0)
        # As if it was created at the beginning of time.
        document = new_document(b"", job, policy=digest, state=state, run_at=run_in, now=0)
        before, after = encode_head(document)
        shape = self._shape(env, document, before)
        return _Mould(alike, document, after, rare_fields(document), shape, state)

    def _shape(self, env: Env, document: Document, before: bytes) -> int:
        """Return the place of what such jobs have in common, from one on as scripts count."""
        known = (
            before,
            document.queue,
            document.type,
            document.run_in,
            document.lifetime,
            document.flow,
            document.correlation_id,
            None if document.tags is None else tuple(document.tags.items()),
        )
        place = self._known.get(known)
        if place is None:
            found = places(env, OF_NUMBER, document, None)
            ((_, counted),) = found.counted
            shape: dict[str, Any] = {
                "before": b"1 " + before,
                "lane": field(document.queue_name, document.type),
                "counted": counted,
                "sorted": list(found.sorted.items()),
                "lifetime": found.lifetime,
            }
            if found.lane is not None:
                shape["ready"] = found.lane
            if found.flow is not None:
                shape["flow"] = found.flow
            self._shapes.append(shape)
            place = self._known[known] = len(self._shapes)
        return place

    def merge(self, other: PlainJobs) -> None:
        """Add the jobs of another statement."""
        shift = len(self._shapes)
        self._shapes += other._shapes
        self._jobs += [[row[0] + shift, *row[1:]] for row in other._jobs]
        self._policies |= other._policies

    @property
    def words(self) -> list[Any]:
        """What the script is given."""
        policies = [word for pair in self._policies.items() for word in pair]
        request = {"shapes": self._shapes, "jobs": self._jobs, "policies": policies}
        return [self._now, pack(request)]


def is_plain(job: NewJob) -> bool:
    """Tell whether a job can be stored without having looked at anything."""
    return (
        job.after is None
        and job.key is None
        and job.concurrency_key is None
        and job.run_at is None
        and job.id is None
    )


def enqueue_plain(env: Env, jobs: Sequence[NewJob]) -> Plan[list[EnqueueReply] | None]:
    """Store jobs of which all are plain; None if nothing was done."""
    batch = PlainJobs(env.now)
    replies: list[EnqueueReply] = []
    for job, id_ in zip(jobs, env.clock.new_ids(len(jobs)), strict=True):
        state = batch.add(env, job, id_)
        replies.append(Enqueued(id_text(id_), job.type, state))
    answer: Any = yield Statement("enqueue", [batch])
    if answer < 0:
        raise StoreUnavailableError(NOT_ACCEPTED)
    return replies if answer else None


def together(batches: Iterable[PlainJobs], now: bytes) -> PlainJobs:
    """Return one statement's worth of several."""
    merged = PlainJobs(now)
    for batch in batches:
        merged.merge(batch)
    return merged

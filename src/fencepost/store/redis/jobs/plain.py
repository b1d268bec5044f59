"""New jobs without dependencies and keys: stored by one call, without a read.

The server numbers them and sets the time of their creation; where they are found is computed by
``places``, with times relative to it. Jobs that need a read first (for a key, a dependency or a
lane that is new) are left to a unit of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import first_state
from fencepost.core.values.names import id_text
from fencepost.core.values.times import seconds_to_us
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.queue import Enqueued, EnqueueReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.redis.documents.document import INLINE_MAX, Document, encode_parts
from fencepost.store.redis.documents.places import places
from fencepost.store.redis.jobs.catalog import Env, field, pack
from fencepost.store.redis.jobs.rows import new_document
from fencepost.store.sql.codec import BY_NUMBER
from fencepost.store.sql.records.transfer import NOT_ACCEPTED

OF_NUMBER = -1
"""Stands for the number of a job, where that is its score; times from now on are not negative."""


class PlainJobs:
    """The only parameter of a statement that stores plain jobs; several can become one."""

    def __init__(self, now: bytes) -> None:
        self._now = now
        self._shapes: list[dict[str, Any]] = []
        self._known: dict[Any, int] = {}
        self._jobs: list[list[Any]] = []
        self._policies: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, env: Env, job: NewJob, id: bytes) -> Document:
        """Add a job; return its document, as if it was created at the beginning of time."""
        digest, text = env.catalog.digest(job.policy)
        if digest is not None:
            self._policies[digest] = text
        run_in = seconds_to_us(job.delay)
        state = first_state(is_due=run_in <= 0)
        document = new_document(id, job, policy=digest, state=state, run_at=run_in, now=0)
        apart = len(job.payload.data) > INLINE_MAX
        if not apart:
            document.payload = job.payload.data
        before, after = encode_parts(document)
        row: list[Any] = [self._shape(env, document, before), id, after]
        self._jobs.append([*row, job.payload.data] if apart else row)
        return document

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
        document = batch.add(env, job, id_)
        replies.append(Enqueued(id_text(id_), job.type, BY_NUMBER[document.number]))
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

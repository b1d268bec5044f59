"""Before a submission to partitions: create them, bind types to one, look up held keys."""

from __future__ import annotations

from collections.abc import Container, Sequence

from fencepost.core.flows.spawn import spawn_keys
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State, first_state
from fencepost.core.values.names import RESERVED_TYPES, id_text, wanted_ids
from fencepost.core.values.payload import differences
from fencepost.errors import InvalidJobError
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.document import body_of
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.enqueue import find_holder
from fencepost.store.redis.partitions.home import bind
from fencepost.store.redis.partitions.hub import HOME, WRITE, Hub
from fencepost.store.redis.partitions.numbers import is_stamped


def prepare(
    hub: Hub, jobs: Sequence[NewJob], numbers: Sequence[int], parent: str | None = None
) -> Plan[None]:
    """Create the partitions of jobs, bind types, and record ids that the caller has chosen.

    The keys by which a *parent* finds its children again name the queue, so they need no binding.
    """
    yield from hub.found(numbers)
    pairs = list(zip(jobs, numbers, strict=True))
    bound = [(job.type, number) for job, number in pairs if _is_bound(job, parent)]
    yield from bind_types(hub, bound)
    strays = {
        id_text(job.id): number
        for job, number in pairs
        if job.id is not None and not is_stamped(job.id, number)
    }
    yield from hub.note_strays(strays)


def _is_bound(job: NewJob, parent: str | None) -> bool:
    """Tell whether a job has a key, which only one partition can check."""
    is_keyed = job.key is not None
    if job.key is not None and parent is not None:
        is_keyed = not job.key.value.startswith(spawn_keys(parent))
    has_any = is_keyed or job.concurrency_key is not None
    return has_any and not job.type.startswith(RESERVED_TYPES)


def bind_types(hub: Hub, pairs: Sequence[tuple[str, int]]) -> Plan[None]:
    """Bind types to partitions, or raise InvalidJobError if one is bound to another."""
    first: dict[str, int] = {}
    for type_, number in pairs:
        first.setdefault(type_, number)
    lacking = {type_: number for type_, number in first.items() if type_ not in hub.bound}
    if lacking:
        hub.bound |= yield from hub.ask(HOME, WRITE, bind, lacking)
    for type_, number in pairs:
        if hub.bound[type_] != number:
            raise InvalidJobError(
                f"with partition=queue, jobs of type {type_!r} that have a key or a concurrency "
                f"key must all be in queues of one partition, and some were submitted to another; "
                f"give them one queue, or leave the key out"
            )


def fates(env: Env, jobs: Sequence[NewJob]) -> Plan[list[EnqueueReply | None]]:
    """Return the replies for jobs that another process has stored; None for those not stored yet.

    A job whose key was held was not stored: its reply is a duplicate.
    """
    unit = Unit(env)
    ids = [id_text(job.id) for job in jobs if job.id is not None]
    stored = yield from unit.by_id(wanted_ids(ids))
    found: list[EnqueueReply | None] = []
    for job, job_id in zip(jobs, ids, strict=True):
        kept = stored.get(job_id)
        if kept is not None:
            found.append(Enqueued(kept.id, job.type, kept.state))
        elif job.key is not None:
            found += yield from holders(env, [job])
        else:
            found.append(None)
    return found


def holders(env: Env, jobs: Sequence[NewJob]) -> Plan[list[Duplicate | None]]:
    """Return which jobs hold the keys of new jobs here; None for a free key."""
    unit = Unit(env)
    yield from unit.start()
    found: list[Duplicate | None] = []
    for job in jobs:
        assert job.key is not None
        kept = yield from find_holder(unit, job.type, job.key.value)
        if kept is None:
            found.append(None)
            continue
        data = kept.document.payload
        if data is None:
            data = yield from unit.large_payload(kept)
        differs = differences(body_of(kept.document.payload_encoding, data), job.payload)
        is_rejected, key = job.key.refuses(kept.queue), job.key.value
        found.append(Duplicate(kept.id, job.type, key, kept.state, is_rejected, differs))
    return found


def rivals(
    jobs: Sequence[NewJob], ids: Sequence[bytes], held: Container[int]
) -> dict[int, Duplicate]:
    """Return the jobs of one submission whose key an earlier job of the same submission will take.

    By their places in it. Places in *held* are skipped: their key is taken already.
    """
    takers: dict[tuple[str, str], int] = {}
    found: dict[int, Duplicate] = {}
    for place, job in enumerate(jobs):
        if job.key is None or place in held:
            continue
        first = takers.setdefault((job.type, job.key.value), place)
        other = jobs[first]
        # One that may end at once, for what it waits for has failed, may not keep its key.
        if first != place and not (other.after and other.key and other.key.window is None):
            found[place] = Duplicate(
                id_text(ids[first]),
                job.type,
                job.key.value,
                first_state_of(other),
                job.key.refuses(other.queue),
                differences(other.payload, job.payload),
            )
    return found


def first_state_of(job: NewJob) -> State:
    """Return the state of a new job, whatever the state of its dependencies."""
    if job.after is not None or job.concurrency_key is not None:
        return State.PENDING
    return first_state(is_due=job.run_at is None and job.delay <= 0)

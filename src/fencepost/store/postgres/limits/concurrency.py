"""Concurrency keys: makes blocked jobs claimable, at the end of every plan that moves jobs.

The server's functions block a job with a concurrency key instead of making it claimable, and name
its slot; so do those that take such a job away. Plans admit jobs to the named slots last. A
caller's transaction may stay open for long, so it only leaves a note: the next claim admits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from fencepost.core.bounds import FOLLOW_BATCH
from fencepost.core.job.job import Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.concurrency import limit_of
from fencepost.store.interface.queue import Moved, portions
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env

ADMIT = "select id::text, lane from fencepost.admit(%s, %s::bigint[], %s::integer[])"
NOTE = """
insert into fencepost.freed_slots(slot, freed) select * from unnest(%s::bigint[], %s::integer[])
"""
ACTIVE = """
select coalesce((select active from fencepost.slots where slot = %s::bigint), 0)
  - coalesce((select sum(freed) from fencepost.freed_slots where slot = %s::bigint), 0)
"""


def slot_number(type: str, key: str) -> int:
    """Return the number of a type's concurrency key, the same in every process."""
    digest = blake2b(f"{type}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def key_fields(job: NewJob | Job) -> dict[str, Any]:
    """Return a job's concurrency key as the server's functions read it; nothing for none."""
    if job.concurrency_key is None:
        return {}
    return {
        "slot": slot_number(job.type, job.concurrency_key),
        "concurrency_key": job.concurrency_key,
        "max_running": limit_of(job.policy),
    }


class FreedSlots(dict[int, int]):
    """Slots that blocked jobs may wait for, and how many jobs have left each."""

    def add(self, slots: Iterable[tuple[int, int]]) -> None:
        """Add slots and counts that the server named."""
        for slot, freed in slots:
            self[slot] = self.get(slot, 0) + freed

    def add_held(self, jobs: Iterable[NewJob | Job]) -> None:
        """Add the slots of blocked jobs."""
        for job in jobs:
            if job.concurrency_key is not None:
                self.setdefault(slot_number(job.type, job.concurrency_key), 0)


def admit(env: Env, freed: Mapping[int, int]) -> Plan[tuple[Moved, ...]]:
    """Give free slots to blocked jobs; return those that got one."""
    if not freed:
        return ()
    if env.is_joined:
        yield from note(freed)
        return ()
    rows: list[Row] = []
    for slots in portions(sorted(freed), FOLLOW_BATCH):
        rows += yield Statement(ADMIT, (env.now, slots, [freed[slot] for slot in slots]))
    lanes = yield from env.catalog.lanes({lane for _, lane in rows})
    return tuple(
        Moved(job_id, lanes[lane].type, State.SCHEDULED, State.PENDING) for job_id, lane in rows
    )


def note(freed: Mapping[int, int]) -> Plan[None]:
    """Leave the slots to the next claim."""
    if freed:
        yield Statement(NOTE, (list(freed), list(freed.values())))


def active(type: str, key: str | None) -> Plan[int]:
    """Return how many jobs of a key are claimable or running."""
    if key is None:
        return 0
    slot = slot_number(type, key)
    ((count,),) = yield Statement(ACTIVE, (slot, slot))
    return int(count)

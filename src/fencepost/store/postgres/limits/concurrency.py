"""Letting jobs with a concurrency key into line, at the end of every plan that moves any.

The functions of the server hold such a job up instead of putting it into line, and name its slot;
so does whoever takes one out of line. What they named is admitted last. In a caller's own
transaction it is only noted, since that may stay open for long: the next claim admits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from fencepost.core.bounds import FOLLOW_BATCH
from fencepost.core.job.job import Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.concurrency import limit_of
from fencepost.store.interface.batches import portions
from fencepost.store.interface.replies import Moved
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env

ADMIT = "select id::text, lane from fencepost.admit(%s, %s::bigint[], %s::integer[])"
NOTE = """
insert into fencepost.touched(slot, freed) select * from unnest(%s::bigint[], %s::integer[])
"""
ACTIVE = """
select coalesce((select active from fencepost.slot where slot = %s::bigint), 0)
  - coalesce((select sum(freed) from fencepost.touched where slot = %s::bigint), 0)
"""


def slot_number(type: str, key: str) -> int:
    """Return the number that stands for a concurrency key of a type, everywhere and for ever."""
    digest = blake2b(f"{type}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def key_fields(job: NewJob | Job) -> dict[str, Any]:
    """Return a job's concurrency key as the server's functions understand it; nothing for none."""
    if job.concurrency_key is None:
        return {}
    return {
        "slot": slot_number(job.type, job.concurrency_key),
        "concurrency_key": job.concurrency_key,
        "max_running": limit_of(job.policy),
    }


class Touched(dict[int, int]):
    """Slots for which somebody may be waiting, and how many jobs have left each."""

    def add(self, touched: Iterable[tuple[int, int]]) -> None:
        """Take in what the server named."""
        for slot, freed in touched:
            self[slot] = self.get(slot, 0) + freed

    def add_held(self, jobs: Iterable[NewJob | Job]) -> None:
        """Take in the keys of jobs that were held up."""
        for job in jobs:
            if job.concurrency_key is not None:
                self.setdefault(slot_number(job.type, job.concurrency_key), 0)


def admit(env: Env, touched: Mapping[int, int]) -> Plan[tuple[Moved, ...]]:
    """Give free slots to those who wait for them; return who got one."""
    if not touched:
        return ()
    if env.is_joined:
        yield from note(touched)
        return ()
    rows: list[Row] = []
    for slots in portions(sorted(touched), FOLLOW_BATCH):
        rows += yield Statement(ADMIT, (env.now, slots, [touched[slot] for slot in slots]))
    lanes = yield from env.catalog.lanes({lane for _, lane in rows})
    return tuple(
        Moved(job_id, lanes[lane].type, State.SCHEDULED, State.PENDING) for job_id, lane in rows
    )


def note(touched: Mapping[int, int]) -> Plan[None]:
    """Leave it to the next claim to see who may have a slot."""
    if touched:
        yield Statement(NOTE, (list(touched), list(touched.values())))


def active(type: str, key: str | None) -> Plan[int]:
    """Return how many jobs of a key are claimable or running."""
    if key is None:
        return 0
    slot = slot_number(type, key)
    ((count,),) = yield Statement(ACTIVE, (slot, slot))
    return int(count)

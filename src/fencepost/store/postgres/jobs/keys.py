"""The jobs that hold keys which a submission asked for: are they where the submitter may look?"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fencepost.core.job.idempotency import Key
from fencepost.store.plan import Plan, Statement

QUEUES = """
select job.id::text, lane.queue from fencepost.job join fencepost.lane on lane.lane = job.lane
where job.id = any (%s::uuid[])
"""


def holder_queues(asked: Iterable[tuple[Key, str]]) -> Plan[dict[str, str]]:
    """Return the queues of those that hold keys, by id, as far as it matters for a key.

    Few keys say where their holders have to be; for the others nothing is asked.
    """
    return (yield from queues_of({holder for key, holder in asked if key.within is not None}))


def queues_of(job_ids: Collection[str]) -> Plan[dict[str, str]]:
    """Return the queues of the jobs that there are of these ids."""
    rows = (yield Statement(QUEUES, (sorted(job_ids),))) if job_ids else []
    return dict(rows)

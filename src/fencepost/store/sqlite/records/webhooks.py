"""Webhooks: their deliveries are stored with the ends that they tell of."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.job.lifecycle import State
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import from_us
from fencepost.core.webhooks.delivery import Delivery, delivery_job
from fencepost.store.interface.replies import Enqueued, Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sqlite.jobs.catalog import Env, numbers_json
from fencepost.store.sqlite.jobs.enqueue import enqueue

ASKED = """
select id, callback_url, state, completed_at, attempt, correlation_id
from jobs indexed by jobs_callback
where callback_url is not null and seq in (select value from json_each(?)) order by seq
"""


def call_back(env: Env, ended: Sequence[int], now: int) -> Plan[list[Moved]]:
    """Store the jobs that tell of the ends of those of *ended* that asked for it."""
    rows = yield Statement(ASKED, (numbers_json(ended),))
    if not rows:
        return []
    jobs = []
    for id_, url, number, completed_at, attempt, correlation_id in rows:
        delivery = Delivery(
            job_id=id_text(id_),
            url=url,
            state=BY_NUMBER[number],
            ended_at=from_us(completed_at),
            attempt=attempt,
        )
        jobs.append(delivery_job(delivery, correlation_id))
    replies = yield from enqueue(env, jobs, atomic=False, now=now)
    return [
        Moved(reply.job_id, reply.type, reply.state, State.PENDING)
        for reply in replies
        if isinstance(reply, Enqueued)
    ]

"""Webhooks: their deliveries are stored with the ends that they tell of."""

from __future__ import annotations

from fencepost.core.job.lifecycle import Event, State, advance
from fencepost.core.values.ids import id_text
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.core.webhooks.delivery import Delivery, delivery_job
from fencepost.store.interface.replies import Moved
from fencepost.store.memory.jobs.record import Record
from fencepost.store.memory.jobs.table import JobTable


def call_back(jobs: JobTable, ended: Record, now: int) -> list[Moved]:
    """Store the job that tells of the end of another, if that asked for it."""
    if ended.callback_url is None:
        return []
    delivery = Delivery(
        job_id=ended.id,
        url=ended.callback_url,
        state=ended.state,
        ended_at=from_us(now),
        attempt=ended.attempt,
    )
    new = delivery_job(delivery, ended.correlation_id)
    state = advance(State.PENDING, Event.READY)
    record = Record(
        seq=jobs.next_seq(),
        id=id_text(jobs.clock.new_id()),
        type=new.type,
        queue=new.queue,
        policy=new.policy,
        payload=new.payload,
        key=None,
        key_window=None,
        correlation_id=new.correlation_id,
        replay_of=None,
        created_at=now,
        priority=new.priority,
        tags={},
        state=state,
        max_attempts=new.policy.max_attempts,
        updated_at=now,
        run_at=now,
        expires_at=now + seconds_to_us(new.policy.lifetime),
        scheduled_at=now,
    )
    jobs.add(record)
    return [Moved(record.id, record.type, state, State.PENDING)]

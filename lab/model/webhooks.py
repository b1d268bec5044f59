"""Webhooks: a job with a callback URL gets a delivery, a job that is stored with its end."""

from __future__ import annotations

import msgspec

from fencepost.core.job.job import Body, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Priority
from fencepost.core.webhooks.delivery import (
    DELIVERY_POLICY,
    DELIVERY_QUEUE,
    DELIVERY_TYPE,
    Delivery,
)
from fencepost.store.interface.queue import Moved
from lab.model import rules
from lab.model.changes import Changing
from lab.model.rules import seconds
from lab.model.world import Kept


class Delivering(Changing):
    """What is stored beside the end of a job (S1-109)."""

    def tell_of(self, kept: Kept) -> list[Moved]:
        """Store the delivery that tells of the end of a job, if it asked for one."""
        job = kept.job
        assert job.state in rules.ENDED
        if job.callback_url is None:
            return []
        assert job.completed_at == self.now
        told = Delivery(
            job_id=job.id,
            url=job.callback_url,
            state=job.state,
            completed_at=self.now,
            attempt=job.attempt,
        )
        delivery = self._delivery(told, job.correlation_id)
        self.world.submitted += 1
        self.world.jobs[delivery.id] = Kept(number=self.world.submitted, job=delivery)
        self.world.queues.add(DELIVERY_QUEUE)
        self.world.types.add(DELIVERY_TYPE)
        return [Moved(delivery.id, DELIVERY_TYPE, State.SCHEDULED, State.PENDING)]

    def _delivery(self, told: Delivery, correlation_id: str | None) -> Job:
        return Job(
            id=self.new_id(),
            type=DELIVERY_TYPE,
            queue=DELIVERY_QUEUE,
            priority=Priority.NORMAL,
            state=State.SCHEDULED,
            attempt=0,
            max_attempts=DELIVERY_POLICY.max_attempts,
            created_at=self.now,
            updated_at=self.now,
            run_at=self.now,
            expires_at=self.now + seconds(DELIVERY_POLICY.lifetime),
            scheduled_at=self.now,
            policy=DELIVERY_POLICY,
            payload_body=Body(msgspec.json.encode(told)),
            key=None,
            tags={},
            correlation_id=correlation_id,
        )

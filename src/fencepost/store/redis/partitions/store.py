"""The store of an app whose queues are spread over the masters of a cluster (``partition=queue``).

It has no data of its own: it takes operations apart, runs them on the stores of partitions and puts
the replies together. What one partition does is atomic; what several do goes through an outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from fencepost.clock import Clock, SystemClock
from fencepost.core.filter import PARTITIONED_JOBS
from fencepost.core.job.job import NewJob
from fencepost.generators import drive, drive_async
from fencepost.store.interface.joins import NoJoins
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.plan import Operation, Statement
from fencepost.store.redis.engine.address import read_address, without_partition
from fencepost.store.redis.partitions.facets import facets
from fencepost.store.redis.partitions.hub import ALL, Hub, PartitionCall, outcome_of
from fencepost.store.redis.partitions.numbers import partition_of, stamped
from fencepost.store.redis.store import PATIENCE

T = TypeVar("T")


class PartitionedStore(Store):
    """Jobs in several slots of a cluster, each queue in one."""

    jobs_listing = PARTITIONED_JOBS

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        patience: float = PATIENCE,
        prefix: str | None = None,
        durability: str | None = None,
    ) -> None:
        address = read_address(url, prefix=prefix, durability=durability)
        self.url = url
        self.clock = clock or SystemClock()
        self._hub = Hub(
            without_partition(url),
            address.prefix,
            clock=self.clock,
            patience=patience,
            durability=durability,
        )
        super().__init__(facets(self._hub, NoJoins(url)))

    def run(self, operation: Operation[T]) -> T:
        return drive(operation.start(), self._perform)

    async def run_async(self, operation: Operation[T]) -> T:
        return await drive_async(operation.start(), self._perform_async)

    def call(self, call: PartitionCall) -> Any:
        """Make one call in this thread."""
        return call.store.run(call.operation)

    def _perform(self, statement: Statement) -> list[Any]:
        calls: Sequence[PartitionCall] = statement.params
        if len(calls) == 1 and statement.sql == ALL:
            return [self.call(calls[0])]
        replies: list[Any] = []
        for call in calls:
            try:
                replies.append(self.call(call))
            except Exception as error:  # noqa: BLE001 - the others are asked all the same
                replies.append(error)
        return outcome_of(replies, calls) if statement.sql == ALL else replies

    async def _perform_async(self, statement: Statement) -> list[Any]:
        calls: Sequence[PartitionCall] = statement.params
        if len(calls) == 1 and statement.sql == ALL:
            (call,) = calls
            return [await call.store.run_async(call.operation)]
        asked = [call.store.run_async(call.operation) for call in calls]
        replies = await asyncio.gather(*asked, return_exceptions=True)
        return outcome_of(replies, calls) if statement.sql == ALL else replies

    def new_ids(self, jobs: Sequence[NewJob]) -> list[bytes]:
        """Return ids that name the partitions of *jobs*."""
        fresh = self.clock.new_ids(len(jobs))
        pairs = zip(jobs, fresh, strict=True)
        return [stamped(id_, partition_of(job.queue)) for job, id_ in pairs]

    def close(self) -> None:
        self._hub.close()

    def listen(self, topic: Topic) -> Listener:
        self.run(self.settings.app_limit())
        return self._hub.listen(topic)

    def migrate(self) -> list[str]:
        """Return nothing: documents need no schema."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        return []

"""The chores, one class each: a step makes one bounded pass and returns how much it did."""

from __future__ import annotations

from typing import Protocol

from fencepost.core.bounds import (
    EXPIRE_BATCH,
    EXPIRE_INTERVAL,
    PROMOTE_BATCH,
    PROMOTE_INTERVAL,
    PRUNE_BATCH,
    PRUNE_INTERVAL,
    PRUNE_PAUSE,
    PRUNE_ROUNDS,
    RECOVER_BATCH,
    RECOVER_INTERVAL,
)
from fencepost.core.retention import Retention
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.plan import Operation


class Chore(Protocol):
    """Something that has to be done now and then."""

    name: str

    @property
    def interval(self) -> float: ...

    async def step(self) -> int: ...


class Recover:
    """Takes back jobs from leases that ran out."""

    name = "recover"
    interval = RECOVER_INTERVAL

    def __init__(self, store: Store) -> None:
        self._store = store

    async def step(self) -> int:
        moved = await self._store.run_async(self._store.upkeep.recover(RECOVER_BATCH))
        return len(moved)


class Promote:
    """Makes due jobs claimable."""

    name = "promote"
    interval = PROMOTE_INTERVAL

    def __init__(self, store: Store) -> None:
        self._store = store

    async def step(self) -> int:
        moved = await self._store.run_async(self._store.upkeep.promote(PROMOTE_BATCH))
        return len(moved)


class Expire:
    """Dead-letters jobs past their lifetime."""

    name = "expire"
    interval = EXPIRE_INTERVAL

    def __init__(self, store: Store) -> None:
        self._store = store

    async def step(self) -> int:
        moved = await self._store.run_async(self._store.upkeep.expire(EXPIRE_BATCH))
        return len(moved)


class Tidy:
    """Keeps the books of an engine that has some."""

    name = "tidy"

    def __init__(self, store: Store, interval: float) -> None:
        self._store = store
        self.interval = interval

    async def step(self) -> int:
        await self._store.run_async(self._store.upkeep.tidy())
        return 0


class _PruneRecords:
    """Deletes records that were kept long enough, the oldest first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._has_more = False

    @property
    def interval(self) -> float:
        """A pass that has not come to the end goes on soon."""
        return PRUNE_PAUSE if self._has_more else PRUNE_INTERVAL

    def prune(self, limit: int) -> Operation[int]:
        """Return the operation that deletes some."""
        raise NotImplementedError

    async def step(self) -> int:
        total = 0
        for _ in range(PRUNE_ROUNDS):
            pruned = await self._store.run_async(self.prune(PRUNE_BATCH))
            total += pruned
            self._has_more = pruned == PRUNE_BATCH
            if not self._has_more:
                break
        return total


class PruneEvents(_PruneRecords):
    """Deletes records of events that retention no longer keeps."""

    name = "prune_events"

    def __init__(self, store: Store, retention: Retention) -> None:
        super().__init__(store)
        self._keep = retention.events

    def prune(self, limit: int) -> Operation[int]:
        return self._store.events.prune(self._keep, limit)


class PruneActions(_PruneRecords):
    """Cuts off the old end of the audit log."""

    name = "prune_actions"

    def __init__(self, store: Store, retention: Retention) -> None:
        super().__init__(store)
        self._keep = retention.audit

    def prune(self, limit: int) -> Operation[int]:
        return self._store.audit.prune(self._keep, limit)


class Prune:
    """Deletes terminal jobs that retention no longer keeps, a stretch at a time."""

    name = "prune"

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store = store
        self._keep = retention.by_state()
        by_type = retention.by_type
        self._keep_by_type = {type_: rule.by_state() for type_, rule in by_type.items()}
        self._position = 0

    @property
    def interval(self) -> float:
        """A pass that has not seen everything goes on soon: else a busy store would only grow."""
        return PRUNE_INTERVAL if self._position == 0 else PRUNE_PAUSE

    async def step(self) -> int:
        total = 0
        for _ in range(PRUNE_ROUNDS):
            request = PruneRequest(
                keep=self._keep,
                keep_by_type=self._keep_by_type,
                after=self._position,
                limit=PRUNE_BATCH,
            )
            pruned = await self._store.run_async(self._store.upkeep.prune(request))
            total += pruned.count
            self._position = pruned.next or 0
            if pruned.next is None:
                break
        return total

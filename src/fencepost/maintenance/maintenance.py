"""Maintenance: the process that leads a term does the chores, each at its interval.

A term is a lease in the store. When a leader dies, another process leads within LEADER_TTL.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.core.bounds import (
    EXPIRE_BATCH,
    EXPIRE_INTERVAL,
    FAREWELL,
    LEADER_TTL,
    PROMOTE_BATCH,
    PROMOTE_INTERVAL,
    PRUNE_BATCH,
    PRUNE_INTERVAL,
    PRUNE_PAUSE,
    PRUNE_ROUNDS,
    RECOVER_BATCH,
    RECOVER_INTERVAL,
)
from fencepost.core.job.timeouts import Retention
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.queue import Moved
from fencepost.store.interface.records.cluster import CHORES_TERM
from fencepost.store.interface.store import Store
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.plan import Operation

if TYPE_CHECKING:
    from fencepost.core.cron import Cron
    from fencepost.observe.tracing import Tracing

Batch = Callable[[], Awaitable[tuple[int, bool]]]
"""Does a bounded piece of work; returns how much it did, and whether there may be more."""

PAUSE_MIN = 0.05


class Chore:
    """Work that has to be done now and then."""

    def __init__(self, name: str, interval: float, batch: Batch, *, rounds: int = 1) -> None:
        self.name = name
        self._interval = interval
        self._batch = batch
        self._rounds = rounds
        self._has_more = False

    @property
    def interval(self) -> float:
        """A pass that has not reached the end goes on soon: else a busy store would only grow."""
        return PRUNE_PAUSE if self._has_more else self._interval

    async def step(self) -> int:
        """Make one bounded pass; return how much it did."""
        total = 0
        for _ in range(self._rounds):
            count, self._has_more = await self._batch()
            total += count
            if not self._has_more:
                break
        return total


def recover(store: Store) -> Chore:
    """Return the chore that takes jobs back from expired leases."""
    return _move(store, "recover", RECOVER_INTERVAL, lambda: store.upkeep.recover(RECOVER_BATCH))


def promote(store: Store) -> Chore:
    """Return the chore that makes due jobs claimable."""
    return _move(store, "promote", PROMOTE_INTERVAL, lambda: store.upkeep.promote(PROMOTE_BATCH))


def expire(store: Store) -> Chore:
    """Return the chore that dead-letters jobs past their lifetime."""
    return _move(store, "expire", EXPIRE_INTERVAL, lambda: store.upkeep.expire(EXPIRE_BATCH))


def _move(
    store: Store, name: str, interval: float, move: Callable[[], Operation[list[Moved]]]
) -> Chore:
    async def batch() -> tuple[int, bool]:
        moved = await store.run_async(move())
        return len(moved), False

    return Chore(name, interval, batch)


def tidy(store: Store, interval: float) -> Chore:
    """Return the chore that lets the engine put its own tables in order."""

    async def batch() -> tuple[int, bool]:
        await store.run_async(store.upkeep.tidy())
        return 0, False

    return Chore("tidy", interval, batch)


def prune_events(store: Store, retention: Retention) -> Chore:
    """Return the chore that deletes old records of events."""
    return _prune(store, "prune_events", lambda: store.events.prune(retention.events, PRUNE_BATCH))


def prune_actions(store: Store, retention: Retention) -> Chore:
    """Return the chore that deletes the old end of the audit log."""
    return _prune(store, "prune_actions", lambda: store.audit.prune(retention.audit, PRUNE_BATCH))


def _prune(store: Store, name: str, prune: Callable[[], Operation[int]]) -> Chore:
    async def batch() -> tuple[int, bool]:
        pruned = await store.run_async(prune())
        return pruned, pruned == PRUNE_BATCH

    return Chore(name, PRUNE_INTERVAL, batch, rounds=PRUNE_ROUNDS)


def prune(store: Store, retention: Retention) -> Chore:
    """Return the chore that deletes terminal jobs which retention no longer keeps.

    It takes one range of jobs after the other, and begins again when it has seen them all.
    """
    keep = retention.by_state()
    keep_by_type = {type_: rule.by_state() for type_, rule in retention.by_type.items()}
    position = 0

    async def batch() -> tuple[int, bool]:
        nonlocal position
        request = PruneRequest(
            keep=keep, keep_by_type=keep_by_type, after=position, limit=PRUNE_BATCH
        )
        pruned = await store.run_async(store.upkeep.prune(request))
        position = pruned.next or 0
        return pruned.count, pruned.next is not None

    return Chore("prune", PRUNE_INTERVAL, batch, rounds=PRUNE_ROUNDS)


class Maintenance:
    """Competes for the term, and does the chores while it leads."""

    def __init__(
        self, store: Store, *, worker: str, retention: Retention, counters: Counters
    ) -> None:
        self._store = store
        self._worker = worker
        self._counters = counters
        self._is_leader = False
        self._chores = [
            recover(store),
            promote(store),
            expire(store),
            prune(store, retention),
            prune_events(store, retention),
            prune_actions(store, retention),
        ]
        # Whose chores need this module.
        from fencepost.maintenance.replays import go_on_with_replays
        from fencepost.maintenance.series import sample_series

        self._chores += [sample_series(store), go_on_with_replays(store)]
        if store.tidy_interval is not None:
            self._chores.append(tidy(store, store.tidy_interval))
        self._due = dict.fromkeys((chore.name for chore in self._chores), 0.0)

    async def start(self) -> None:
        """Compete for the term and do the chores, forever."""
        while True:
            try:
                pause = await self.step()
            except Exception as error:  # noqa: BLE001 - one chore's defect must not end the others
                is_away = isinstance(error, StoreError)
                level = logging.DEBUG if is_away else logging.ERROR
                log(names.CHORE_FAILED, level=level, error=repr(error))
                pause = LEADER_TTL / 2
            await self._store.clock.sleep_async(pause)

    async def step(self) -> float:
        """Take or keep the term and do the chores that are due; return how long to wait."""
        lead = self._store.cluster.lead(CHORES_TERM, self._worker, LEADER_TTL)
        term = await self._store.run_async(lead)
        self._note_leadership(term is not None)
        if term is None:
            return LEADER_TTL / 2
        now = self._store.clock.monotonic()
        for chore in self._chores:
            if self._due[chore.name] <= now:
                # If it fails, the next step does the other chores, and this one waits.
                self._due[chore.name] = now + LEADER_TTL
                await chore.step()
                self._due[chore.name] = self._store.clock.monotonic() + chore.interval
        soonest = min(self._due.values()) - self._store.clock.monotonic()
        return min(max(soonest, PAUSE_MIN), LEADER_TTL / 3)

    def _note_leadership(self, is_leader: bool) -> None:
        if is_leader != self._is_leader:
            self._is_leader = is_leader
            name = names.LEADER_ELECTED if is_leader else names.LEADER_RESIGNED
            self._counters.add(name)
            log(name, level=logging.DEBUG, worker=self._worker)

    async def resign(self) -> None:
        """Give up the term, so that the next leader need not wait for it to expire."""
        if self._is_leader:
            await self._store.run_async(self._store.cluster.resign(CHORES_TERM, self._worker))
            self._note_leadership(False)


class Caretaker:
    """Maintenance and crons for a process that runs no worker, such as a server."""

    def __init__(
        self,
        store: Store,
        *,
        name: str,
        retention: Retention,
        crons: Mapping[str, Cron],
        counters: Counters,
        tracing: Tracing | None = None,
    ) -> None:
        self._store = store
        self._tracing = tracing
        self._crons = crons
        self._counters = counters
        self._maintenance = Maintenance(store, worker=name, retention=retention, counters=counters)
        self._services: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start on the running event loop."""
        services = [self._maintenance.start()]
        if self._crons:
            from fencepost.maintenance.ticker import Ticker

            ticker = Ticker(self._store, self._crons, self._counters, self._tracing)
            services.append(ticker.start())
        self._services = [asyncio.create_task(service) for service in services]

    async def stop(self) -> None:
        """Stop, and give up the term; if the store cannot be reached, the term expires."""
        for service in self._services:
            service.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._maintenance.resign()

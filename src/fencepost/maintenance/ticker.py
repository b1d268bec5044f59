"""Fires the crons of an app. Every worker runs a ticker; no leader is needed.

The first worker to reach a tick fires it: in one transaction, the store moves the cron on and
stores the jobs, but only if the cron is still as the worker saw it. A process that dies before
the commit has done nothing, and one that dies after it has done everything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.core.bounds import (
    CRON_DECLARE_INTERVAL,
    CRON_FIRE_MAX,
    CRON_JITTER,
    CRON_LOOK_INTERVAL,
    CRON_SILENCE,
)
from fencepost.core.cron import GRACE, Cron, due
from fencepost.errors import StoreError
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.records.crons import (
    CronFire,
    CronList,
    CronView,
    Fired,
    definition_of,
    fire_of,
    has_same_times,
)
from fencepost.store.interface.store import Store

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from fencepost.observe.tracing import Tracing

PAUSE_MIN = 0.005
PAUSE_AFTER_FAILURE = 1.0
DECLARE_INTERVAL = timedelta(seconds=CRON_DECLARE_INTERVAL)
SILENCE = timedelta(seconds=CRON_SILENCE)


class Ticker:
    """Declares the crons of an app, and fires those that are due."""

    def __init__(
        self,
        store: Store,
        crons: Mapping[str, Cron],
        counters: Counters,
        tracing: Tracing | None = None,
    ) -> None:
        self._store = store
        self._tracing = tracing
        self._crons = crons
        self._counters = counters
        self._declared: set[str] = set()
        self._outdated: set[str] = set()

    async def start(self) -> None:
        """Fire what is due, forever."""
        while True:
            await self._store.clock.sleep_async(await self.attempt())

    async def attempt(self) -> float:
        """Make one step and survive a store that is away; return how long to wait."""
        try:
            return await self.step()
        except Exception as error:  # noqa: BLE001 - a tick that cannot be fired now is not lost
            is_away = isinstance(error, StoreError)
            level = logging.WARNING if is_away else logging.ERROR
            log(names.CRON_FAILED, level=level, error=repr(error))
            self._counters.add(names.CRON_FAILED)
            return PAUSE_AFTER_FAILURE * self._store.clock.rng.uniform(0.5, 1.0)

    async def step(self) -> float:
        """Read the crons, declare and fire those that need it; return how long to wait."""
        seen, at = await self._look()
        undeclared = [cron for cron in self._crons.values() if self._is_to_declare(cron, seen)]
        if undeclared:
            wanted = [definition_of(cron, seen.now) for cron in undeclared]
            await self._store.run_async(self._store.crons.declare(wanted))
            self._declared.update(cron.name for cron in undeclared)
            seen, at = await self._look()
        ready = [(cron, row) for cron, row in self._own(seen) if not row.is_paused]
        fires = _first([_fire(cron, row, seen.now) for cron, row in ready if _is_due(row, seen)])
        if fires:
            await self._fire(fires, seen)
        moved = {fire.name: fire.next_tick for fire in fires}
        ticks = [moved.get(cron.name, row.next_tick) for cron, row in ready]
        return self._pause(seen.now, [tick for tick in ticks if tick is not None], at)

    async def _look(self) -> tuple[CronList, float]:
        """Return the crons in the store, and our monotonic time when they were read."""
        seen = await self._store.run_async(self._store.crons.list())
        return seen, self._store.clock.monotonic()

    def _own(self, seen: CronList) -> Iterator[tuple[Cron, CronView]]:
        """Yield the crons of this app whose schedule is the one in the store."""
        for row in seen.crons:
            cron = self._crons.get(row.name)
            if cron is not None and has_same_times(cron, row):
                self._outdated.discard(row.name)
                yield cron, row
            elif cron is not None and row.name not in self._outdated:
                self._outdated.add(row.name)
                log(names.CRON_OUTDATED, level=logging.WARNING, cron=row.name, now=row.expression)

    def _is_to_declare(self, cron: Cron, seen: CronList) -> bool:
        """Return whether a cron has to be declared in the store.

        At the start always: the schedule of the process that started last counts. Later, to show
        that a process still knows the cron; or to put our schedule back when the processes that
        declared another one have stopped.
        """
        row = next((row for row in seen.crons if row.name == cron.name), None)
        if cron.name not in self._declared or row is None or row.declared_at is None:
            return True
        patience = DECLARE_INTERVAL if has_same_times(cron, row) else SILENCE
        return seen.now - row.declared_at >= patience

    async def _fire(self, fires: list[CronFire], seen: CronList) -> None:
        spans: dict[str, Span] = {}
        if self._tracing is not None:
            fires = list(_traced(fires, self._tracing, spans))
        replies = await self._store.run_async(self._store.crons.fire(fires))
        for fire, reply in zip(fires, replies, strict=True):
            late = seen.now - fire.expected
            if not isinstance(reply, Fired):
                continue
            if fire.name in spans:
                spans[fire.name].end()
            log(names.CRON_FIRED, level=logging.DEBUG, cron=fire.name, jobs=len(fire.jobs))
            if late >= GRACE:
                self._counters.add(names.CRON_MISSED, cron=fire.name)
                log(
                    names.CRON_MISSED,
                    level=logging.WARNING,
                    cron=fire.name,
                    seconds=late.total_seconds(),
                    jobs=len(fire.jobs),
                )

    def _pause(self, now: datetime, ticks: list[datetime], at: float) -> float:
        """Return how long to wait for the first of *ticks*, at most CRON_LOOK_INTERVAL.

        With jitter: one of several workers then fires first, and the others see that it did.
        """
        clock = self._store.clock
        left = min(((tick - now).total_seconds() for tick in ticks), default=CRON_LOOK_INTERVAL)
        pause = min(left, CRON_LOOK_INTERVAL) - (clock.monotonic() - at)
        return max(pause, PAUSE_MIN) + clock.rng.uniform(0, CRON_JITTER)


def _traced(fires: list[CronFire], tracing: Tracing, spans: dict[str, Span]) -> Iterator[CronFire]:
    """Yield *fires* whose jobs carry the context of a span each, which is added to *spans*."""
    for fire in fires:
        if not fire.jobs:
            yield fire
            continue
        sending = tracing.ticking(fire.name, fire.jobs)
        spans[fire.name] = sending.span
        yield replace(fire, jobs=tuple(sending.jobs))


def _is_due(row: CronView, seen: CronList) -> bool:
    return row.next_tick is not None and row.next_tick <= seen.now


def _fire(cron: Cron, row: CronView, now: datetime) -> CronFire:
    assert row.next_tick is not None
    return fire_of(cron, row.next_tick, due(cron, next_tick=row.next_tick, now=now))


def _first(fires: list[CronFire]) -> list[CronFire]:
    """Return as many as fit into one transaction; the others stay due for the next step."""
    taken: list[CronFire] = []
    count = 0
    for fire in fires:
        count += len(fire.jobs)
        if taken and count > CRON_FIRE_MAX:
            break
        taken.append(fire)
    return taken

"""The leader: whoever holds the term does the chores, each at its interval.

The term is a lease in the store; a leader that dies is followed by another within LEADER_TTL.
"""

from __future__ import annotations

import logging

from fencepost.core.bounds import LEADER_TTL
from fencepost.core.retention import Retention
from fencepost.errors import StoreError
from fencepost.maintenance.chores import (
    Chore,
    Expire,
    Promote,
    Prune,
    PruneActions,
    PruneEvents,
    Recover,
    Tidy,
)
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log
from fencepost.store.interface.store import Store

TERM = "maintenance"
PAUSE_MIN = 0.05


class Maintenance:
    """A candidate for the term, and its chores when elected."""

    def __init__(
        self, store: Store, *, worker: str, retention: Retention, counters: Counters
    ) -> None:
        self._store = store
        self._worker = worker
        self._counters = counters
        self._is_leader = False
        self._chores: list[Chore] = [
            Recover(store),
            Promote(store),
            Expire(store),
            Prune(store, retention),
            PruneEvents(store, retention),
            PruneActions(store, retention),
        ]
        if store.tidy_interval is not None:
            self._chores.append(Tidy(store, store.tidy_interval))
        self._due = dict.fromkeys((chore.name for chore in self._chores), 0.0)

    async def start(self) -> None:
        """Stand for the term and do the chores, forever."""
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
        """Take or keep the term and do what is due; return how long to wait."""
        term = await self._store.run_async(self._store.cluster.lead(TERM, self._worker, LEADER_TTL))
        self._note_leadership(term is not None)
        if term is None:
            return LEADER_TTL / 2
        now = self._store.clock.monotonic()
        for chore in self._chores:
            if self._due[chore.name] <= now:
                # Should it fail, those behind it are done in the next step, and it later.
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
        """Give up the term, so that the next leader need not wait for it to run out."""
        if self._is_leader:
            await self._store.run_async(self._store.cluster.resign(TERM, self._worker))
            self._note_leadership(False)

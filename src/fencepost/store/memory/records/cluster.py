"""Which workers have been heard from, and who leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fencepost.core.bounds import WORKER_SILENCE
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.store.interface.cluster import Term, WorkerInfo

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


class Presence:
    """Workers and terms; nothing but listings and chores depends on them (S2-16)."""

    def __init__(self) -> None:
        self._workers: dict[str, tuple[int, WorkerInfo]] = {}
        self._terms: dict[str, tuple[int, str]] = {}

    def announce(self, worker: WorkerInfo, now: int) -> None:
        """Note that *worker* lives; forget those that have long been silent."""
        heard = {id: entry for id, entry in self._workers.items() if _is_heard(entry[0], now)}
        heard[worker.id] = (now, msgspec.structs.replace(worker, seen_at=from_us(now)))
        self._workers = heard

    def retire(self, worker_id: str) -> None:
        self._workers.pop(worker_id, None)

    def workers(self, now: int) -> list[WorkerInfo]:
        """Return the workers heard from lately, sorted by id."""
        return [info for _, (seen, info) in sorted(self._workers.items()) if _is_heard(seen, now)]

    def lead(self, name: str, worker: str, ttl: float, now: int) -> Term | None:
        """Take or keep a term; None while somebody else holds it."""
        expires_at, holder = self._terms.get(name, (now, worker))
        if holder != worker and now < expires_at:
            return None
        expires_at = now + seconds_to_us(ttl)
        self._terms[name] = (expires_at, worker)
        return Term(name, worker, from_us(expires_at))

    def resign(self, name: str, worker: str) -> None:
        """Give up a term, if it is *worker*'s."""
        _, holder = self._terms.get(name, (0, None))
        if holder == worker:
            del self._terms[name]


def _is_heard(seen: int, now: int) -> bool:
    return now < seen + seconds_to_us(WORKER_SILENCE)


def announce(world: MemoryWorld, worker: WorkerInfo) -> None:
    """Note that a worker lives."""
    world.presence.announce(worker, world.now)


def retire(world: MemoryWorld, worker_id: str) -> None:
    """Forget a worker that has stopped."""
    world.presence.retire(worker_id)


def workers(world: MemoryWorld) -> list[WorkerInfo]:
    """Return the workers heard from lately."""
    return world.presence.workers(world.now)


def lead(world: MemoryWorld, name: str, worker: str, ttl: float) -> Term | None:
    """Take or keep a term."""
    return world.presence.lead(name, worker, ttl, world.now)


def resign(world: MemoryWorld, name: str, worker: str) -> None:
    """Give up a term."""
    world.presence.resign(name, worker)

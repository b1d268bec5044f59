"""Slots of concurrency keys: who holds them, and who gets one that is free.

How many jobs of a key are active and how many wait for a slot are counted with every commit. A
commit that changes one of the numbers checks both. So if two commits do so at once, one of them
starts again: no slot is given twice, and no job waits beside a free one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fencepost.core.job.lifecycle import ACTIVE, State, first_state
from fencepost.core.limits.concurrency import limit_of
from fencepost.store.interface.queue import Moved
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import PRIORITIES, Kept
from fencepost.store.redis.documents.places import held_key
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import field, number_of

Scope = tuple[str, str]
"""A type and a concurrency key."""


def scope_of(kept: Kept) -> Scope | None:
    """Return whose slots a job needs."""
    key = kept.document.concurrency_key
    return None if key is None else (kept.type, key)


def admit(unit: Unit, scopes: Iterable[Scope | None]) -> Plan[tuple[Moved, ...]]:
    """Give the free slots of keys to waiting jobs, in their order."""
    wanted = list(dict.fromkeys(each for each in scopes if each is not None))
    if not wanted:
        return ()
    names = [field(*scope) for scope in wanted]
    active = yield from unit.fields(unit.env.key("active"), names)
    held = yield from unit.fields(unit.env.key("held"), names)
    own: defaultdict[Scope | None, list[tuple[Kept, State | None]]] = defaultdict(list)
    for kept, was in unit.changed():
        own[scope_of(kept)].append((kept, was))
    admitted: list[Moved] = []
    for scope, name in zip(wanted, names, strict=True):
        slots = _Slots(unit, scope, int(active[name] or 0), int(held[name] or 0), own[scope])
        for kept in (yield from slots.entering()):
            was, state = kept.state, first_state(is_due=True)
            kept.set_state(state)
            document = kept.document
            document.run_at = document.scheduled_at = document.updated_at = unit.now
            admitted.append(Moved(kept.id, kept.type, state, was))
    return tuple(admitted)


def active(unit: Unit, type: str, key: str | None) -> Plan[int]:
    """Return how many jobs of a key are claimable or running."""
    if key is None:
        return 0
    return int((yield from unit.field(unit.env.key("active"), field(type, key))) or 0)


class _Slots:
    """The slots of one key, and the jobs of this unit that have it, with their states before."""

    def __init__(
        self,
        unit: Unit,
        scope: Scope,
        active: int,
        held: int,
        own: list[tuple[Kept, State | None]],
    ) -> None:
        self._unit = unit
        self._scope = scope
        self._held = held
        self._own = own
        self._occupied = active + sum((job.state in ACTIVE) - (was in ACTIVE) for job, was in own)

    def entering(self) -> Plan[list[Kept]]:
        """Return the jobs to admit: from the first on, while its limit allows one more."""
        asked = 2
        while True:
            waiting = yield from self._waiting(asked)
            for place, kept in enumerate(waiting):
                if self._occupied + place >= limit_of(kept.policy):
                    return waiting[:place]
            if asked >= self._held:
                return waiting
            asked *= 4

    def _waiting(self, count: int) -> Plan[list[Kept]]:
        """Return jobs that wait for a slot, in order: those in line, and those of this unit."""
        seqs: list[int] = []
        if self._held:
            keys = [held_key(self._unit.env, *self._scope, each) for each in map(int, PRIORITIES)]
            heads = yield from self._unit.read(*([b"ZRANGE", key, 0, count - 1] for key in keys))
            seqs = [number_of(number) for numbers in heads for number in numbers]
        found = yield from self._unit.jobs(seqs)
        for kept, _ in self._own:
            found[kept.seq] = kept
        held = [kept for kept in found.values() if kept.is_held]
        return sorted(
            held, key=lambda kept: (kept.document.priority, kept.document.run_at, kept.seq)
        )

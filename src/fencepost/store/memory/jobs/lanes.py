"""Claimable jobs, one line a (queue, type): nobody looks into the lanes of a paused type."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heapreplace

from fencepost.store.memory.engine.line import Entry, Line


class Lanes:
    """The lanes that are not empty, by queue and then by type; and the queues of each type."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, Line]] = {}
        self._of_type: dict[str, set[str]] = {}

    def join(self, queue: str, type: str, entry: Entry) -> None:
        self._queues.setdefault(queue, {}).setdefault(type, Line()).join(entry)
        self._of_type.setdefault(type, set()).add(queue)

    def leave(self, queue: str, type: str, entry: Entry) -> None:
        lanes = self._queues[queue]
        lanes[type].leave(entry)
        if not lanes[type]:
            del lanes[type]
            self._of_type[type].remove(queue)
            if not self._of_type[type]:
                del self._of_type[type]
        if not lanes:
            del self._queues[queue]

    def lane(self, queue: str, type: str) -> Line | None:
        """Return one lane, or None when nothing of that type is claimable in that queue."""
        return self._queues.get(queue, {}).get(type)

    def queues(self, types: Collection[str] | None) -> list[str]:
        """Return the queues that have claimable jobs of *types*, sorted; None means any."""
        if types is None:
            return sorted(self._queues)
        return sorted({queue for type in types for queue in self._of_type.get(type, ())})

    def open(
        self, queue: str, types: Collection[str] | None, paused: Collection[str]
    ) -> dict[str, Line]:
        """Return the lanes of *queue* of the wanted types, paused ones left out."""
        lanes = self._queues.get(queue, {})
        wanted = lanes if types is None else [type for type in types if type in lanes]
        return {type: lanes[type] for type in wanted if type not in paused}


def merged(lanes: Mapping[str, Line], budget: dict[str, int]) -> Iterator[int]:
    """Yield sequence numbers over all *lanes* in line order; each must leave before the next.

    Of a type in *budget* no more are yielded than it says; what is yielded is counted off.
    """
    heads = [(head, type) for type, lane in lanes.items() if (head := lane.first())]
    heads = [head for head in heads if budget.get(head[1], 1)]
    heapify(heads)  # entries end in a sequence number, so two types are never compared
    while heads:
        entry, type = heads[0]
        if type in budget:
            budget[type] -= 1
        yield entry[-1]
        following = lanes[type].first() if budget.get(type, 1) else None
        assert following is not entry
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (following, type))

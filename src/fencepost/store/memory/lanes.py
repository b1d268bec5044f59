"""Claimable jobs, one line a (queue, type): nobody looks into the lanes of a paused type."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heapreplace

from fencepost.store.memory.line import Entry, Line


class Lanes:
    """The lanes that are not empty, by queue and then by type."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, Line]] = {}

    def join(self, queue: str, type: str, entry: Entry) -> None:
        self._queues.setdefault(queue, {}).setdefault(type, Line()).join(entry)

    def leave(self, queue: str, type: str, entry: Entry) -> None:
        lanes = self._queues[queue]
        lanes[type].leave(entry)
        if not lanes[type]:
            del lanes[type]
        if not lanes:
            del self._queues[queue]

    def lane(self, queue: str, type: str) -> Line | None:
        """Return one lane, or None when nothing of that type is claimable in that queue."""
        return self._queues.get(queue, {}).get(type)

    def queues(self) -> list[str]:
        """Return the queues that have claimable jobs, sorted."""
        return sorted(self._queues)

    def open(
        self, queue: str, types: Collection[str] | None, paused: Collection[str]
    ) -> list[Line]:
        """Return the lanes of *queue* of the wanted types, paused ones left out."""
        return [
            lane
            for type, lane in self._queues.get(queue, {}).items()
            if type not in paused and (types is None or type in types)
        ]


def merged(lanes: list[Line]) -> Iterator[int]:
    """Yield sequence numbers over all *lanes* in line order; each must leave before the next."""
    heads = [(head, lane) for lane in lanes if (head := lane.first())]
    heapify(heads)  # entries end in a sequence number, so two lanes are never compared
    while heads:
        entry, lane = heads[0]
        yield entry[-1]
        following = lane.first()
        assert following is not entry
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (following, lane))

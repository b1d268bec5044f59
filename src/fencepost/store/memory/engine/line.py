"""A line of jobs in order: cheap to join, to leave from any place, and to see who is first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

Entry = tuple[int, ...]
"""What decides a job's place, the smallest first; its last item is the job's sequence number."""

SLACK = 16
"""A heap so small is not worth rebuilding."""


class Line:
    """A heap from which entries are dropped lazily.

    ``_entries`` says who stands in line; what the heap holds beyond that is stale and skipped. An
    entry counts only if it is the very object that joined last, so a job that leaves and comes
    back to the same place stands there once.
    """

    __slots__ = ("_entries", "_heap")

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._heap: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def join(self, entry: Entry) -> None:
        """Put a job in line; it must not stand there already."""
        assert entry[-1] not in self._entries
        self._entries[entry[-1]] = entry
        heappush(self._heap, entry)

    def leave(self, entry: Entry) -> None:
        """Take a job out of line, wherever it stands."""
        del self._entries[entry[-1]]
        # Rebuilt only once most of it is stale, so that leaving costs O(1) on average.
        if len(self._heap) > 2 * len(self._entries) + SLACK:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def __iter__(self) -> Iterator[int]:
        """Yield the sequence number of each job in line, in no useful order."""
        return iter(self._entries)

    def first(self) -> Entry | None:
        """Return the entry at the head of the line, or None."""
        heap = self._heap
        while heap:
            if self._stands(heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def before(self, bound: Entry) -> Iterator[int]:
        """Yield the sequence number of each job before *bound*, in no useful order.

        Looks only at what comes before *bound*: in a heap, nothing below an entry precedes it.
        """
        heap = self._heap
        places = [0]
        while places:
            place = places.pop()
            if place < len(heap) and heap[place] < bound:
                if self._stands(heap[place]):
                    yield heap[place][-1]
                places += (2 * place + 1, 2 * place + 2)

    def _stands(self, entry: Entry) -> bool:
        return self._entries.get(entry[-1]) is entry

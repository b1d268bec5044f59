"""How many jobs there are of each (queue, type, state): exact, and never found by a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fencepost.core.job.lifecycle import State


class Counts:
    """Counters that move with the jobs."""

    def __init__(self) -> None:
        self._cells: Counter[tuple[str, str, State]] = Counter()
        self._running: Counter[str] = Counter()

    def add(self, queue: str, type: str, state: State, number: int) -> None:
        """Add *number*, which may be negative."""
        cell = (queue, type, state)
        self._cells[cell] += number
        assert self._cells[cell] >= 0
        if not self._cells[cell]:
            del self._cells[cell]
        if state is State.RUNNING:
            self._running[queue] += number

    def running(self, queue: str) -> int:
        """Return how many jobs of *queue* are RUNNING, under a valid lease or not."""
        return self._running[queue]

    def cells(self) -> Iterator[tuple[str, str, State, int]]:
        """Yield queue, type, state and count, for every count above zero."""
        for (queue, type, state), number in self._cells.items():
            yield queue, type, state, number

    def by_queue(self) -> dict[str, dict[State, int]]:
        """Return the counts of each queue that has jobs, states in their usual order."""
        return _in_state_order([(queue, state, n) for queue, _, state, n in self.cells()])

    def by_type(self) -> dict[str, dict[State, int]]:
        """Return the counts of each type that has jobs, states in their usual order."""
        return _in_state_order([(type, state, n) for _, type, state, n in self.cells()])


_ORDER = {state: place for place, state in enumerate(State)}


def _in_state_order(rows: list[tuple[str, State, int]]) -> dict[str, dict[State, int]]:
    totals: dict[str, dict[State, int]] = {}
    for name, state, number in sorted(rows, key=lambda row: (row[0], _ORDER[row[1]])):
        counts = totals.setdefault(name, {})
        counts[state] = counts.get(state, 0) + number
    return totals

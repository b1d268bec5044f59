"""Which queues and types there are together: as many as an app may have, until long unused."""

from __future__ import annotations

from collections import Counter
from functools import partial

from fencepost.core import bounds
from fencepost.core.values.names import lanes_max
from fencepost.errors import TooManyLanesError
from fencepost.store.memory.engine.journal import Journal

Pair = tuple[str, str]


class Pairs:
    """Every pair of a queue and a type that has had a job, and since when it has none."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._idle_at: dict[Pair, int | None] = {}
        self._jobs: Counter[Pair] = Counter()

    def learn(self, queue: str, type: str) -> None:
        """Note that there is a job of this pair, or raise TooManyLanesError."""
        pair = (queue, type)
        if pair in self._idle_at:
            return
        if len(self._idle_at) >= lanes_max(type):
            raise TooManyLanesError(bounds.LANES_MAX)
        self._set(pair, None)

    def count(self, queue: str, type: str, number: int) -> None:
        """Note that there are so many jobs more, or fewer."""
        self._jobs[queue, type] += number
        if not self._jobs[queue, type]:
            del self._jobs[queue, type]

    def prune(self, idle_before: int, now: int) -> None:
        """Forget the pairs that were seen to have no jobs at *idle_before*, and still have none."""
        for pair, idle_at in list(self._idle_at.items()):
            if self._jobs[pair]:
                if idle_at is not None:
                    self._set(pair, None)
            elif idle_at is None:
                self._set(pair, now)
            elif idle_at <= idle_before:
                del self._idle_at[pair]
                self._journal.note(partial(self._idle_at.__setitem__, pair, idle_at))

    def queues(self) -> set[str]:
        return {queue for queue, _ in self._idle_at}

    def types(self) -> set[str]:
        return {type for _, type in self._idle_at}

    def _set(self, pair: Pair, idle_at: int | None) -> None:
        if pair in self._idle_at:
            undo = partial(self._idle_at.__setitem__, pair, self._idle_at[pair])
        else:
            undo = partial(self._idle_at.__delitem__, pair)
        self._idle_at[pair] = idle_at
        self._journal.note(undo)

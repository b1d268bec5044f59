"""Records in the order they were made: read page by page, and pruned by age."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Generic, TypeVar

from fencepost.core.filter import PageRequest
from fencepost.core.values.instants import seconds_to_us, to_us
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.engine.numbered import Roll

T = TypeVar("T")


class Ledger(Generic[T]):
    """Each id once. Every change is journalled, so that it stands or falls with its operation."""

    def __init__(
        self, journal: Journal, *, id_of: Callable[[T], str], at_of: Callable[[T], datetime]
    ) -> None:
        self._roll: Roll[tuple[int, T]] = Roll()
        self._ids: set[str] = set()
        self._journal = journal
        self._id_of = id_of
        self._at_of = at_of
        self._last_number = 0

    def add(self, record: T) -> bool:
        """Enter a record at the end; False if its id is there."""
        if self._id_of(record) in self._ids:
            return False
        self._last_number += 1
        self._enter(self._last_number, record)
        self._journal.note(partial(self._strike, self._last_number, record))
        return True

    def page(
        self, page: PageRequest, is_wanted: Callable[[T], bool] = lambda _: True
    ) -> tuple[list[T], int | None]:
        """Return one page, newest first, and the position of its last if there are more."""
        wanted = (each for each in self._roll.before(page.after) if is_wanted(each[1]))
        found = list(islice(wanted, page.limit + 1))
        shown = found[: page.limit]
        has_more = len(found) > len(shown) > 0
        return [record for _, record in shown], shown[-1][0] if has_more else None

    def prune(self, keep: float, limit: int, now: int) -> int:
        """Delete the oldest records that were kept long enough."""
        until = now - seconds_to_us(keep)
        old = (each for each in self._roll.after(0) if to_us(self._at_of(each[1])) <= until)
        doomed = sorted(old, key=lambda each: (self._at_of(each[1]), each[0]))[: max(limit, 0)]
        for number, record in doomed:
            self._strike(number, record)
            self._journal.note(partial(self._enter, number, record))
        return len(doomed)

    def _enter(self, number: int, record: T) -> None:
        self._roll.add(number, (number, record))
        self._ids.add(self._id_of(record))

    def _strike(self, number: int, record: T) -> None:
        self._roll.remove(number)
        self._ids.remove(self._id_of(record))

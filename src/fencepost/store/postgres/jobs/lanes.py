"""Lanes as a process remembers them, to be found by number and by names.

A claim finds those that it asks for without a look at the others, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

VIEWS_MAX = 1_000


class Lane(NamedTuple):
    """One type of one queue at one priority."""

    number: int
    queue: str
    type: str
    priority: int


LaneKey = tuple[str, str, int]
_Family = dict[int, Lane]
"""The lanes of one queue and type, by number."""


class Lanes:
    """Some lanes. Not for several threads at once."""

    def __init__(self, lanes: Iterable[Lane] = ()) -> None:
        self._by_number: dict[int, Lane] = {}
        self._by_key: dict[LaneKey, Lane] = {}
        self._by_queue: dict[str, dict[str, _Family]] = {}
        self._by_type: dict[str, dict[str, _Family]] = {}
        self._views: dict[Hashable, Any] = {}
        for lane in lanes:
            self.add(lane)

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._by_number.values()))

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    def get(self, number: int) -> Lane | None:
        return self._by_number.get(number)

    def number(self, key: LaneKey) -> int | None:
        lane = self._by_key.get(key)
        return None if lane is None else lane.number

    def add(self, lane: Lane) -> None:
        """Remember *lane*, in the place of what had its names."""
        if self._by_number.get(lane.number) == lane == self._by_key.get(lane[1:]):
            return
        self._views.clear()
        self._by_number[lane.number] = lane
        self._by_key[lane[1:]] = lane
        types = self._by_queue.setdefault(lane.queue, {})
        family = types.get(lane.type)
        if family is None:
            family = types[lane.type] = {}
            self._by_type.setdefault(lane.type, {})[lane.queue] = family
        family[lane.number] = lane

    def discard(self, lane: Lane) -> None:
        """Forget *lane*."""
        family = self._by_queue.get(lane.queue, {}).get(lane.type, {})
        if family.pop(lane.number, None) is None:
            return
        self._views.clear()
        del self._by_number[lane.number]
        if self.number(lane[1:]) == lane.number:
            del self._by_key[lane[1:]]
        if not family:
            _drop(self._by_queue, lane.queue, lane.type)
            _drop(self._by_type, lane.type, lane.queue)

    def of(self, queues: Collection[str] | None, types: Collection[str] | None) -> list[Lane]:
        """Return the lanes of these queues and types; None means all."""
        if queues is not None:
            families = _pick(self._by_queue, queues, types)
        elif types is not None:
            families = _pick(self._by_type, types, None)
        else:
            return list(self)
        return [lane for family in families for lane in family.values()]

    def view(self, key: Hashable, make: Callable[[Lanes], T]) -> T:
        """Return what *make* makes of these lanes, again and again until they change."""
        view: T | None = self._views.get(key)
        if view is None:
            if len(self._views) >= VIEWS_MAX:
                self._views.clear()
            view = self._views[key] = make(self)
        return view


def _pick(
    index: dict[str, dict[str, _Family]], firsts: Collection[str], seconds: Collection[str] | None
) -> Iterator[_Family]:
    for first in firsts:
        families = index.get(first)
        if not families:
            continue
        if seconds is None:
            yield from families.values()
        elif len(seconds) <= len(families):
            yield from (families[second] for second in seconds if second in families)
        else:
            yield from (family for second, family in families.items() if second in seconds)


def _drop(index: dict[str, dict[str, _Family]], first: str, second: str) -> None:
    del index[first][second]
    if not index[first]:
        del index[first]

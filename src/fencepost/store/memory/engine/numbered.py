"""A roll: things under rising numbers, walked in order from any number on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

SLACK = 64
"""So few struck numbers are not worth a rewrite."""


class Roll(Generic[T]):
    """Numbers in a sorted list, struck out lazily. Do not change one while walking it."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._things: dict[int, T] = {}

    def __getitem__(self, number: int) -> T:
        return self._things[number]

    def add(self, number: int, thing: T) -> None:
        """Enter *thing*; at the end, unless an undone removal brings it back."""
        place = bisect_left(self._numbers, number)
        if place == len(self._numbers) or self._numbers[place] != number:
            self._numbers.insert(place, number)
        self._things[number] = thing

    def remove(self, number: int) -> None:
        del self._things[number]
        if len(self._numbers) > 2 * len(self._things) + SLACK:
            self._numbers = sorted(self._things)

    def after(self, number: int) -> Iterator[T]:
        """Yield what has a higher number, the lowest first."""
        for place in range(bisect_right(self._numbers, number), len(self._numbers)):
            if self._numbers[place] in self._things:
                yield self._things[self._numbers[place]]

    def before(self, number: int | None) -> Iterator[T]:
        """Yield what has a lower number, the highest first; all of it for None."""
        end = len(self._numbers) if number is None else bisect_left(self._numbers, number)
        for place in range(end - 1, -1, -1):
            if self._numbers[place] in self._things:
                yield self._things[self._numbers[place]]

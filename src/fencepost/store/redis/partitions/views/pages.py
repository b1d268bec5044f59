"""Lists of several partitions, merged page by page.

Jobs have numbers within their partition only, so the position in a list of jobs holds a position of
every partition. Dead letters and ended jobs are in the order of their ends, which partitions share:
their position is the time, the partition and the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from fencepost.store.plan import Plan
from fencepost.store.redis.partitions.numbers import PARTITIONS
from fencepost.store.sql.paging import FIRST_US, LAST_SEQ, pack, unpack

NUMBER_BITS = 56
"""The bits of the number of a job, in the position of an end; its partition is above them."""
_SIZE_BITS, _PARTITION_BITS = 6, 6


def pack_positions(positions: Mapping[int, int]) -> int:
    """Return positions by partition as one number; a partition that is read to its end has none."""
    packed = 1
    for number, position in sorted(positions.items()):
        assert 0 <= number < PARTITIONS and position >= 0
        size = (position.bit_length() + 7) // 8
        packed = packed << _PARTITION_BITS | number
        packed = packed << _SIZE_BITS | size
        packed = packed << 8 * size | position
    return packed


def unpack_positions(packed: int) -> dict[int, int]:
    """Return positions by partition; nothing for a number that no page returned."""
    bits = bin(packed)[3:]  # without 0b1
    found: dict[int, int] = {}
    at = 0
    while at + _PARTITION_BITS + _SIZE_BITS <= len(bits):
        number = int(bits[at : at + _PARTITION_BITS], 2)
        at += _PARTITION_BITS
        size = int(bits[at : at + _SIZE_BITS], 2) * 8
        at += _SIZE_BITS
        if size > len(bits) - at:
            return {}
        found[number] = int(bits[at : at + size] or "0", 2)
        at += size
    return found


class Head(NamedTuple):
    """Where an item stands in its partition, and by what partitions are compared."""

    order: Any
    position: int
    item: Any


Fetch = Callable[[int, int | None, int], Plan[tuple[list[Head], int | None]]]
"""Return a page of a partition from beyond a position: heads, and the position of the last."""


class Merge:
    """Items of several partitions in one order; each is read only as far as needed."""

    def __init__(self, fetch: Fetch, size: int, step: int = 1) -> None:
        self._fetch = fetch
        self._size = size
        self._step = step
        """From a position to the one that comes before it in the list."""
        self._waiting: dict[int, list[Head]] = {}
        self._after: dict[int, int | None] = {}
        """From where to read on; a partition that has no more is not in it."""
        self._seen: dict[int, int] = {}

    def start(self, positions: Mapping[int, int | None]) -> Plan[None]:
        """Begin beyond these positions, by partition."""
        for number, position in positions.items():
            self._after[number] = position
            if position is not None:
                self._seen[number] = position
            yield from self._fill(number)

    def _fill(self, number: int) -> Plan[None]:
        """Read the next items of a partition, unless it has no more."""
        while not self._waiting.get(number) and number in self._after:
            after = self._after.pop(number)
            heads, following = yield from self._fetch(number, after, self._size)
            self._waiting[number] = heads
            if following is not None:
                self._after[number] = following
            if number not in self._seen and heads:
                # What comes later is not shown.
                self._seen[number] = heads[0].position + self._step

    def take(
        self,
        needs: Callable[[Any], Iterable[str]] | None = None,
        name: Callable[[Any], str] | None = None,
    ) -> Plan[Head | None]:
        """Return the next item, the largest first, but none before one that it *needs*.

        The two functions return what an item needs, and what it is called.
        """
        ready = [
            (heads[0].order, self._step * number)
            for number, heads in self._waiting.items()
            if heads
        ]
        if not ready:
            return None
        if needs is not None and name is not None:
            later = {name(head.item) for heads in self._waiting.values() for head in heads}
            free = [
                each
                for each in ready
                if later.isdisjoint(needs(self._waiting[self._step * each[1]][0].item))
            ]
            ready = free or ready
        number = self._step * max(ready)[1]
        head = self._waiting[number].pop(0)
        self._seen[number] = head.position
        yield from self._fill(number)
        return head

    @property
    def has_more(self) -> bool:
        return any(self._waiting.values())

    @property
    def position(self) -> int:
        """From where the next page goes on."""
        return pack_positions(
            {
                number: position
                for number, position in self._seen.items()
                if self._waiting.get(number) or number in self._after
            }
        )


def place_of(position: int, number: int) -> int:
    """Return the position of an end in a list of all partitions."""
    at, seq = unpack(position)
    assert 0 < seq < 1 << NUMBER_BITS
    return pack(at, number << NUMBER_BITS | seq)


def beyond(position: int, number: int, *, newest_first: bool) -> int:
    """Return where a partition goes on after a position in the list of all.

    What ended at the same time comes in the order of partitions, the highest first if the newest
    are.
    """
    at, place = unpack(position)
    other, seq = place >> NUMBER_BITS, place & ((1 << NUMBER_BITS) - 1)
    if at <= FIRST_US or other == number:
        return pack(at, max(seq, 1)) if at > FIRST_US else position
    has_passed = number > other if newest_first else number < other
    if newest_first:
        return pack(at, 1) if has_passed else pack(at, LAST_SEQ)
    return pack(at, LAST_SEQ) if has_passed else pack(at - 1, LAST_SEQ)

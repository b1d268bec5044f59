"""Which partition a queue is in, and a job by its id.

Both follow from names alone: no table says where a queue is, so none can be lost or be out of date.
A job's id is a random UUID of version 4 as ever, of whose 122 random bits the last six are the
number of its partition. The one before them is not set: ids in which it is stand for jobs together
with what they spawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from fencepost.clock import Clock, SystemClock
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE

PARTITIONS = 64
OUTBOX = "fencepost.outbox"
"""The queue of entries that one partition has for others. It is paused: only we read it."""
MIRRORS = "fencepost.mirrors"
"""The queue of what stands for jobs of other partitions. Nothing there can be claimed."""
HIDDEN = frozenset({OUTBOX, MIRRORS})
SPREAD = frozenset({DELIVERY_QUEUE})
"""Queues of which every partition has a part: a webhook is stored beside the job that ended."""

_LAST = 15
_BITS = PARTITIONS - 1
_GATHERS = 0x40


@lru_cache(maxsize=10_000)
def partition_of(queue: str) -> int:
    """Return the number of the partition that a queue is in."""
    digest = hashlib.blake2b(queue.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % PARTITIONS


def partition_of_id(job_id: str) -> int:
    """Return the partition that an id names; any, for text that is no id."""
    try:
        return int(job_id[-2:], 16) & _BITS
    except ValueError:
        return 0


def stamped(id: bytes, number: int) -> bytes:
    """Return an id with the number of a partition in it."""
    return id[:_LAST] + bytes((id[_LAST] & 0x80 | number,))


def is_stamped(id: bytes, number: int) -> bool:
    """Tell whether an id is one that a job of this partition would be given."""
    return id[_LAST] & 0x7F == number


def gathering(job_id: str) -> str:
    """Return the id that stands for a job together with what it spawns."""
    try:
        return f"{job_id[:-2]}{int(job_id[-2:], 16) | _GATHERS:02x}"
    except ValueError:
        return job_id  # it is no id, and finds nothing


def is_gathering(job_id: str) -> bool:
    return bool(int(job_id[-2:], 16) & _GATHERS)


def gathered(job_id: str) -> str:
    """Return the id of the job for which an id stands."""
    return f"{job_id[:-2]}{int(job_id[-2:], 16) & ~_GATHERS:02x}"


def prefix_of(prefix: str, number: int) -> str:
    """Return the prefix of a partition: the app's, with the number in the braces."""
    opened, _, rest = prefix.partition("{")
    tag, closed, end = rest.partition("}")
    if not closed:
        return f"{prefix}{number}:"
    return f"{opened}{{{tag}.{number}}}{end}"


def token_of(token: str, number: int) -> str:
    """Return the token of a claim with the number of the partition in it."""
    return f"{token}.{number:02x}"


def partition_of_token(token: str) -> int | None:
    """Return the partition in a lease's token; None if there is none."""
    number = token.rpartition(".")[2]
    try:
        found = int(number, 16)
    except ValueError:
        return None
    return found if found < PARTITIONS and number == f"{found:02x}" else None


class _Stamping:
    """Makes ids and tokens with the number of a partition in them."""

    number: int
    base: Clock

    def new_id(self) -> bytes:
        return stamped(self.base.new_id(), self.number)

    def new_ids(self, count: int) -> list[bytes]:
        return [stamped(id_, self.number) for id_ in self.base.new_ids(count)]

    def new_token(self) -> str:
        return token_of(self.base.new_token(), self.number)


class _SystemStamps(_Stamping, SystemClock):
    """The machine's clock: the store then relies on the server's time."""

    def __init__(self, base: SystemClock, number: int) -> None:
        self.base, self.number, self.rng = base, number, base.rng


class _OtherStamps(_Stamping):
    """A clock of a test."""

    def __init__(self, base: Clock, number: int) -> None:
        self.base, self.number = base, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)


def stamping(clock: Clock, number: int) -> Any:
    """Return *clock*, whose ids and tokens name a partition."""
    if isinstance(clock, SystemClock):
        return _SystemStamps(clock, number)
    return _OtherStamps(clock, number)


def by_partition(numbers: Sequence[int]) -> dict[int, list[int]]:
    """Return the places of each number, in the order in which they come."""
    found: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        found.setdefault(number, []).append(place)
    return found

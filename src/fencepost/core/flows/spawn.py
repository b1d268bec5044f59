"""What a running job brings forth, under keys by which a later attempt finds it again."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.flows.graph import Stage, side_by_side
from fencepost.core.flows.order import arrange
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import ClaimedJob, NewJob

DIGEST_LENGTH = 32


def arranged(stages: Sequence[Stage]) -> list[NewJob]:
    """Return the jobs of *stages*, which do not wait for each other, each behind what it needs."""
    return arrange(side_by_side(stages))


def digest(parent: ClaimedJob, job: NewJob) -> str:
    """Return what equal jobs of one parent have in common: type, queue and payload.

    Keys are readable where payloads are encrypted; the parent's payload keeps whoever does not
    know it from trying out what the job's may be.
    """
    parts = (job.type.encode(), job.queue.encode(), job.payload.encoding.encode(), job.payload.data)
    # A NUL is in none of the first three; the payload is last, so that nothing runs together.
    secret = hashlib.sha256(parent.payload.data).digest()
    return hmac.digest(secret, b"\0".join(parts), "sha256").hex()[:DIGEST_LENGTH]


class Numbers:
    """Numbers equal jobs that one attempt spawns, from 1, so that each has a key of its own.

    The same handler spawns the same jobs again on its next attempt, and finds them by these keys.
    The numbers of a spawn that was refused, or of which nobody knows, are given out again.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._returned: dict[str, set[int]] = {}

    def take(self, same: str) -> int:
        """Return the lowest number that none of the jobs called *same* has."""
        if returned := self._returned.get(same):
            number = min(returned)
            returned.remove(number)
            return number
        self._counts[same] = self._counts.get(same, 0) + 1
        return self._counts[same]

    def give_back(self, taken: Iterable[tuple[str, int]]) -> None:
        """Let numbers be taken again."""
        for same, number in taken:
            self._returned.setdefault(same, set()).add(number)


class Keyed(NamedTuple):
    """Jobs to be spawned, each with a key, and the numbers in those that were made for them."""

    jobs: tuple[NewJob, ...]
    taken: list[tuple[str, int]]


def keyed(parent: ClaimedJob, jobs: Iterable[NewJob], numbers: Numbers) -> Keyed:
    """Return *jobs*, each with a key by which an attempt of *parent* finds it; given ones stay."""
    spawned: list[NewJob] = []
    taken: list[tuple[str, int]] = []
    for job in jobs:
        if job.key is None:
            same = digest(parent, job)
            taken.append((same, numbers.take(same)))
            value = f"spawn:{parent.id}:{same}:{taken[-1][1]}"
            # As long as the parent can live, an attempt of it may ask again.
            job = replace(job, key=Key(value, parent.policy.lifetime, OnDuplicate.RETURN))
        spawned.append(job)
    return Keyed(tuple(spawned), taken)

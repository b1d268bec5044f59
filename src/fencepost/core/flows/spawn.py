"""Jobs that a running job spawns, with keys by which a later attempt finds them again."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import ClaimedJob, NewJob

DIGEST_LENGTH = 32


def digest(parent: ClaimedJob, job: NewJob) -> str:
    """Return the digest of type, queue and payload, which equal jobs of one parent share.

    Keys are not encrypted, even where payloads are. The parent's payload is the secret of the
    digest, so that a reader of keys cannot guess payloads.
    """
    parts = (job.type.encode(), job.queue.encode(), job.payload.encoding.encode(), job.payload.data)
    # Unambiguous: the first three contain no NUL, and the payload is last.
    secret = hashlib.sha256(parent.payload.data).digest()
    return hmac.digest(secret, b"\0".join(parts), "sha256").hex()[:DIGEST_LENGTH]


def spawn_keys(parent_id: str) -> str:
    """Return how the keys of what a job spawns begin; the rest differs with type and queue."""
    return f"spawn:{parent_id}:"


class Numbers:
    """Numbers equal jobs that one attempt spawns, from 1, so that each has its own key.

    The next attempt spawns the same jobs and finds them by these keys. The numbers of a spawn that
    was refused, or whose outcome is unknown, are used again.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._returned: dict[str, set[int]] = {}

    def take(self, same: str) -> int:
        """Return the lowest free number for jobs with this digest."""
        if returned := self._returned.get(same):
            number = min(returned)
            returned.remove(number)
            return number
        self._counts[same] = self._counts.get(same, 0) + 1
        return self._counts[same]

    def give_back(self, taken: Iterable[tuple[str, int]]) -> None:
        """Make numbers available again."""
        for same, number in taken:
            self._returned.setdefault(same, set()).add(number)


class Keyed(NamedTuple):
    """Jobs to be spawned, each with a key, and the numbers that were taken for the keys."""

    jobs: tuple[NewJob, ...]
    taken: list[tuple[str, int]]


def keyed(parent: ClaimedJob, jobs: Iterable[NewJob], numbers: Numbers) -> Keyed:
    """Return *jobs*, each with a key for later attempts of *parent*; given keys stay."""
    spawned: list[NewJob] = []
    taken: list[tuple[str, int]] = []
    for job in jobs:
        if job.key is None:
            same = digest(parent, job)
            taken.append((same, numbers.take(same)))
            value = f"{spawn_keys(parent.id)}{same}:{taken[-1][1]}"
            # Attempts of the parent may spawn again during its whole lifetime.
            job = replace(job, key=Key(value, parent.policy.lifetime, OnDuplicate.RETURN))
        spawned.append(job)
    return Keyed(tuple(spawned), taken)

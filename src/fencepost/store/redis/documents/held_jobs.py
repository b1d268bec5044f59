"""Jobs that this process has claimed, remembered so that settling them needs no read.

A settlement is a commit like any other: the server compares what was read, and if the job has
changed or its lease has ended, the operation starts again, and then reads. Each memory is used
once, so a repetition reads too.

Without a read, a settlement has to estimate the time of the server: the time in its last answer
plus what has passed here since. A commit whose estimate is wrong is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from fencepost.store.redis.documents.job import Kept

REMEMBERED_MAX = 5_000


class HeldJobs:
    """The jobs of recent claims, each until it is settled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Kept] = {}
        """By the tokens of their leases."""
        self._time: tuple[int, float] | None = None
        self.listener: bytes | None = None
        """The name under which this process is woken; None if nothing here listens."""
        self.has_claimed = False
        """Whether claims of this process say when it is idle."""

    def note(self, now: int, elapsed: float) -> None:
        """Note the time of the server, and when it was answered, on a clock of this process."""
        self._time = (now, elapsed)

    def believed(self, elapsed: float) -> int | None:
        """Return the time of the server, as far as it is known."""
        if self._time is None:
            return None
        now, since = self._time
        return now + int((elapsed - since) * 1e6)

    def remember(self, jobs: Mapping[str, Kept]) -> None:
        """Remember what a claim has read, at the expense of what is oldest."""
        with self._lock:
            self._jobs |= jobs
            while len(self._jobs) > REMEMBERED_MAX:
                del self._jobs[next(iter(self._jobs))]

    def take(self, tokens: Iterable[str]) -> list[Kept | None]:
        """Return what is remembered of the jobs with these tokens, and forget it."""
        with self._lock:
            return [self._jobs.pop(token, None) for token in tokens]

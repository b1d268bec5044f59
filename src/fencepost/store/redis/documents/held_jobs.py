"""What this process knows of the jobs that it has claimed, so that a settlement need not read them.

A claim reads a job; its settlement relies on that. It is a commit like any other: the server
compares, and if the job has changed since, or its lease has ended, the operation begins anew, and
then reads. What is remembered is used once, so that a repetition reads too.

A settlement without a read also needs the time of the server. It is believed to be that of the last
answer, and as much more as has passed here since; a commit that believes a wrong one is not made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from fencepost.store.redis.documents.job import Kept

REMEMBERED_MAX = 5_000


class HeldJobs:
    """The jobs of recent claims, each until it is settled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, Kept] = {}
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

    def remember(self, jobs: Iterable[Kept]) -> None:
        """Remember what a claim has read, at the expense of what is oldest."""
        with self._lock:
            for kept in jobs:
                self._jobs.pop(kept.seq, None)
                self._jobs[kept.seq] = kept
            while len(self._jobs) > REMEMBERED_MAX:
                del self._jobs[next(iter(self._jobs))]

    def take(self, seqs: Iterable[int]) -> dict[int, Kept]:
        """Return what is remembered of these, and forget it."""
        with self._lock:
            found = ((seq, self._jobs.pop(seq, None)) for seq in seqs)
            return {seq: kept for seq, kept in found if kept is not None}

"""Somebody who writes under leases that have ended, by the thousand: ``SETTINGS URL NAME [API]``.

It claims jobs of a queue of its own, and at times of everybody's, and lets their leases run out; it
reads every token from the workers' ledgers; and it tries to settle, heartbeat and save with those
of which it knows that they are stale. The result and the checkpoint that it tries to leave are
marked, so that one that got in would also be found in the store.
"""

from __future__ import annotations

import logging
import math
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from random import Random

from msgspec.structs import replace

from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.errors import StoreError
from fencepost.store.interface.queue import (
    AlreadySettled,
    ClaimRequest,
    Extended,
    LeaseLost,
    Saved,
    Settled,
)
from fencepost.store.interface.store import Store
from lab.chaos.entries import Acknowledged, Asked, Started, Taken, Tried
from lab.chaos.ledger import Follower, Ledger
from lab.chaos.process import begin
from lab.chaos.settings import Settings
from lab.chaos.tasks import BAIT_QUEUE, QUEUE, QUICK, declare, make_app
from lab.chaos.writes import HttpWrites, StoreWrites, Token, Writes

NAME = "zombie"
TTL = 1.0
BITE = 4
"""Jobs that are claimed at once, to be let down: few, so that leases end at many moments."""
HELD_MAX = 40
"""Jobs that are held at once."""
BAIT = 40
"""Jobs that are submitted to be let down, when no more of them are left."""
STOLEN_SHARE = 0.1
"""How often jobs are taken that were meant for workers."""
SAMPLE = 120
"""Old tokens that are looked at in a round."""
INTERVAL = 0.5
PAUSE = 0.03
HOT = 0.003


class Zombie:
    """Keeps every token that it has ever seen."""

    def __init__(
        self, url: str, settings: Settings, ledger: Ledger, api: str | None = None
    ) -> None:
        self._app = make_app(url, settings)
        self._writes: Writes = StoreWrites(self._app.store) if api is None else HttpWrites(api)
        self._quick = declare(self._app, settings, ledger)[QUICK]
        self._ledger = ledger
        self._bait = 0
        self._workers = Follower(settings.place, "worker-")
        self._seen: list[Token] = []
        self._own: list[Taken] = []
        """Claimed here, and not yet run out."""
        self._rng = Random(f"{settings.seed} zombie")
        self._dice = Random(f"{settings.seed} digging")
        self._is_stopping = False
        signal.signal(signal.SIGTERM, lambda *_: self._stop())

    @property
    def _store(self) -> Store:
        return self._app.store

    def close(self) -> None:
        self._app.close()

    def _stop(self) -> None:
        self._is_stopping = True

    def walk(self) -> None:
        """Go round after round until stopped, whatever becomes of the store meanwhile."""
        digging = threading.Thread(target=self._dig_on)
        digging.start()
        while not self._is_stopping:
            with suppress(StoreError):  # the next round tries as well
                self.step()
            self._rest()
        digging.join()

    def _dig_on(self) -> None:
        """Try old tokens, in a thread of its own: that takes longer than a lease is stale."""
        while not self._is_stopping:
            with suppress(StoreError):
                self.dig()
            self._ledger.clock.sleep(INTERVAL)

    def dig(self) -> None:
        """Learn what tokens workers have had, and try some of all that were ever seen."""
        self._seen += [
            Token(line.job, line.version, line.token)
            for line in self._workers.news()
            if isinstance(line, Started)
        ]
        since = self._ledger.now()
        stale = self._surely_stale()
        passed_by = [token for token, job in stale if is_passed_by(token, job)]
        self._try(passed_by, self._dice, has_settled=False, since=since)
        others = [token for token, _ in stale if token not in passed_by]
        self._try(others, self._dice, has_settled=True, since=since)

    def _rest(self) -> None:
        """Wait a little, but not past the end of the next lease.

        Idle workers sleep until just then, and recover it within half a millisecond: to be there
        before them takes a hot wait at the end.
        """
        ends_at = min((each.expires_at for each in self._own), default=math.inf)
        left = ends_at - self._ledger.now()
        self._ledger.clock.sleep(max(min(PAUSE, left - HOT), 0.0))
        while ends_at - HOT <= self._ledger.now() <= ends_at:
            pass

    def step(self) -> None:
        """Try what has just run out; if nothing has, take some jobs for later."""
        now = self._ledger.now()
        own = [Token(each.job, each.version, each.token) for each in self._own if each.is_over(now)]
        if own:
            self._own = [each for each in self._own if not each.is_over(now)]
            self._seen += own
            self._try(own, self._rng, has_settled=False)
        elif len(self._own) < HELD_MAX:
            self._take()

    def _take(self) -> None:
        queue = QUEUE if self._rng.random() < STOLEN_SHARE else BAIT_QUEUE
        request = ClaimRequest(
            worker=NAME, limit=BITE, queues={queue: 1}, types=frozenset({QUICK}), lease_ttl=TTL
        )
        jobs = self._store.run(self._store.queue.claim(request)).jobs
        if not jobs and queue == BAIT_QUEUE and not self._own:
            self._lay_bait()
        for job in jobs:
            expires_at = job.lease.expires_at.timestamp()
            lease = (job.id, job.lease.version, job.lease.token, NAME, expires_at)
            taken = Taken(self._ledger.now(), *lease)
            self._ledger.note(taken)
            self._own.append(taken)

    def _lay_bait(self) -> None:
        """Submit jobs as any caller does; what has no answer is submitted again the next time."""
        numbers = range(self._bait, self._bait + BAIT)
        keys = [f"{QUICK}/{NAME}/{number}" for number in numbers]
        task = self._quick.using(queue=BAIT_QUEUE)
        asked_at = self._ledger.now()
        self._ledger.note(Asked(asked_at, keys))
        handles = self._app.submit_many(
            task.using(key=key).prepare(number) for key, number in zip(keys, numbers, strict=True)
        )
        ids = [handle.id for handle in handles]
        now = self._ledger.now()
        self._ledger.note(Acknowledged(now, keys, ids, now - asked_at))
        self._bait += BAIT

    def _surely_stale(self) -> list[tuple[Token, Job | None]]:
        """Return some old tokens whose job has ended, or is under a later lease; and that job."""
        sample = self._dice.sample(self._seen, min(SAMPLE, len(self._seen)))
        jobs = self._store.run(self._store.reader.get([token.job for token in sample]))
        return [
            (token, job)
            for token, job in zip(sample, jobs, strict=True)
            if job is None or job.state.is_terminal or job.lease_version > token.version
        ]

    def _try(
        self, tokens: Sequence[Token], rng: Random, *, has_settled: bool, since: float = 0.0
    ) -> None:
        """Write what must not be written, and note the answers."""
        if not tokens:
            return
        writes = [self._writes.heartbeat, self._writes.save, self._writes.settle]
        rng.shuffle(writes)  # the first has the best chances
        answers = [reply for write in writes for reply in write(tokens)]
        replies = zip((*tokens, *tokens, *tokens), answers, strict=True)
        counted = tally(self._ledger.now(), replies, has_settled=has_settled)
        self._ledger.note(replace(counted, since=since))


def is_passed_by(token: Token, job: Job | None) -> bool:
    """Tell whether a later lease has completed the job: then no other has settled it last."""
    return job is not None and job.state is State.COMPLETED and job.lease_version > token.version


def tally(now: float, replies: Iterable[tuple[Token, object]], *, has_settled: bool) -> Tried:
    """Count the answers. A token that cannot have settled its job has nothing to repeat."""
    count = refused = repeated = 0
    accepted: list[str] = []
    jobs: list[str] = []
    for token, reply in replies:
        count += 1
        match reply:
            case LeaseLost():
                refused += 1
            case AlreadySettled() if has_settled:
                repeated += 1
            case Settled() | Extended() | Saved() | AlreadySettled():
                accepted.append(f"{type(reply).__name__} for {token}")
                jobs.append(token.job)
            case _:
                accepted.append(f"{reply!r} for {token}")
                jobs.append(token.job)
    return Tried(now, count, refused, repeated, accepted, jobs)


def main() -> None:
    settings, url, name = begin()
    logging.getLogger("fencepost").setLevel(logging.CRITICAL)  # each refusal would be a line
    api = sys.argv[4] if len(sys.argv) > 4 else None
    with closing(Zombie(url, settings, Ledger(settings.place, name), api)) as zombie:
        zombie.walk()


if __name__ == "__main__":
    main()

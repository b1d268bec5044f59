"""A limit of the whole app over three partitions, and who dies on the way.

No claim makes more jobs run than the limit allows, whoever died before; and nothing is kept back:
in the end every job is done, and any queue alone can have the whole limit.
"""

from __future__ import annotations

from fencepost.core.filter import JobFilter
from fencepost.core.job.job import Body, ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.generators import drive
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.settings import Scope
from fencepost.store.redis.partitions.quotas import running
from fencepost.store.redis.partitions.store import PartitionedStore
from lab.outbox.story import QUEUES, Death, Story, job

JOBS = 7
TTL = 5.0
ROUNDS_MAX = 60


class LimitStory(Story):
    """Claims and settlements under a limit that changes, with one death."""

    def __init__(self, url: str, prefix: str, death: Death | None) -> None:
        super().__init__(url, prefix, death)
        self._witness = PartitionedStore(url, clock=self.clock, prefix=prefix)
        self._limit: int | None = None
        self._held: list[ClaimedJob] = []

    def _running(self) -> int:
        return drive(running(self._witness._hub), self._witness._perform)

    def limit(self, most: int | None) -> None:
        """Set the limit; one whose setter died is set again, and holds only then."""
        before, was = self._running(), self._store
        self.act(lambda store: store.settings.limit(Scope.APP, "", most))
        if self._store is not was:
            self._limit = None
            self.claim("a", 1)  # whoever comes by finds a limit that is half set
            self.act(lambda store: store.settings.limit(Scope.APP, "", most))
        self._limit = most
        if self._running() > before + 1:
            self.wrong.append("a new limit made jobs run")

    def claim(self, queue: str | None, count: int) -> int:
        """Claim jobs; return how many."""
        queues = None if queue is None else {queue: 1}
        request = ClaimRequest(worker="w", limit=count, lease_ttl=TTL, queues=queues)
        before = self._running()
        claim = self.act(lambda store: store.queue.claim(request))
        jobs = [] if claim is None else claim.jobs
        self._held += jobs
        now = self._running()
        if self._limit is not None and now > max(self._limit, before):
            self.wrong.append(f"{now} jobs run, the limit is {self._limit}")
        return len(jobs)

    def settle(self) -> None:
        """Complete the jobs that are held."""
        for each in self._held:
            decision = decide(each, Succeeded(Body(b"1")), self.clock.rng)
            settlement = Settlement(each.id, each.lease.token, decision)
            self.act(lambda store, s=settlement: store.queue.settle([s]))  # type: ignore[misc]
        self._held = []

    def play(self) -> None:
        """Let it all happen."""
        for queue in QUEUES:
            self._submit(queue, JOBS, flow=queue)
        self.claim("b", 1)
        self.limit(3)
        for queue in QUEUES:
            self.claim(queue, 2)
        self.settle()
        for queue in ("c", "b"):
            self.claim(queue, 2)
        self.limit(2)
        self.claim(None, 3)
        self.settle()
        self.claim("c", 5)
        self.limit(4)
        self.claim("a", 3)
        self._finish()
        self._alone()
        self.calls = self.calls or self._store.calls
        self._store.close()
        self._witness.close()

    def _submit(self, queue: str, count: int, flow: str) -> None:
        new = [job(f"of {queue}", queue, flow=flow) for _ in range(count)]
        self.ensure(lambda store: store.queue.enqueue(new), flow, count)

    def _finish(self) -> None:
        """All jobs are done, though workers were lost."""
        idle = 0
        for _ in range(ROUNDS_MAX):
            self.settle()
            self.clock.advance(TTL)
            idle = 0 if self.claim(None, 9) else idle + 1
            if idle > 2:
                break
        reader = self._witness.reader
        total = self._witness.run(reader.count(JobFilter()))
        done = self._witness.run(reader.count(JobFilter(states=(State.COMPLETED,))))
        if done != total:
            self.wrong.append(f"{total - done} jobs are kept back")

    def _alone(self) -> None:
        """Any queue can have the whole limit, and all of it again when there is none."""
        for queue in QUEUES:
            self._submit(queue, 30, flow=f"{queue} alone")
            self.clock.advance(TTL)
            got = self.claim(queue, 5)
            self.clock.advance(TTL)  # also what a process held that died of this claim
            got = max(got, self.claim(queue, 5))
            if got != 4:
                self.wrong.append(f"{queue} alone runs {got} of 4 jobs")
            self.settle()
            self.limit(None)
            self.clock.advance(TTL)
            if not self.claim(queue, 9) and not self.claim(queue, 9):
                self.wrong.append(f"{queue} is limited for ever")
            self.settle()
            self.limit(4)

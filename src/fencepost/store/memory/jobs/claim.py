"""Which jobs a claim takes: turns between queues, limits, rates, and the lines inside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from fencepost.clock import Clock
from fencepost.core.bounds import (
    CLAIM_BYTES_MAX,
    CLAIM_MAX,
    EXPIRE_BATCH,
    PROMOTE_BATCH,
    RECOVER_BATCH,
)
from fencepost.core.job.job import ClaimedJob
from fencepost.core.limits.rates import soonest
from fencepost.core.limits.weights import deal
from fencepost.core.values.names import RESERVED_TYPES
from fencepost.store.interface.batches import held_among
from fencepost.store.interface.queue import Claim, ClaimRequest
from fencepost.store.memory.engine.line import Line
from fencepost.store.memory.jobs.finish import expire, lease, promote, recover
from fencepost.store.memory.jobs.lanes import merged
from fencepost.store.memory.jobs.record import Record
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.settings import LaneSettings

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def claim(world: MemoryWorld, request: ClaimRequest) -> Claim:
    """Bring the jobs up to date (bounded), then lease what is claimable."""
    jobs, settings, rates, clock, do = (
        world.jobs,
        world.settings,
        world.rates,
        world.clock,
        world.do,
    )
    now = clock.now_us()
    recovered = do("recover", partial(recover, jobs, RECOVER_BATCH, clock.rng, now))
    expired = do("expire", partial(expire, jobs, EXPIRE_BATCH, now))
    promoted = do("promote", partial(promote, jobs, PROMOTE_BATCH, now))
    taking = _Taking(jobs, settings, clock, request, now)
    claimed = taking.take(rates.budget(now))
    rates.note(Counter(job.type for job in claimed), now)
    held_up = taking.types_in_line() if rates.by_type else set()
    return Claim(
        jobs=claimed,
        recovered=recovered,
        expired=expired,
        promoted=len(promoted),
        held=held_among(promoted),
        wait=world.chores.wait(_wait(jobs, rates.opens_at(held_up, now), now)),
    )


class _Taking:
    """One claim's way along the lanes."""

    def __init__(
        self, jobs: JobTable, settings: LaneSettings, clock: Clock, request: ClaimRequest, now: int
    ) -> None:
        self._jobs = jobs
        self._settings = settings
        self._clock = clock
        self._request = request
        self._now = now
        self._bytes = 0
        self._is_full = False

    def take(self, budget: dict[str, int]) -> list[ClaimedJob]:
        """Lease jobs, of each type in *budget* no more than that."""
        running = Running(self._jobs, self._now)
        wanted = self._request.limit
        limit = min(wanted, CLAIM_MAX, running.app_room(self._settings, wanted))
        lanes = self._open_lanes({type for type, left in budget.items() if not left})
        if limit <= 0 or not lanes:
            return []
        queues = self._request.queues
        shares = deal(
            queues if queues is not None else dict.fromkeys(lanes, 1), self._request.turn, limit
        )
        room = {queue: running.queue_room(self._settings, queue, limit) for queue in shares}
        taken: dict[str, list[ClaimedJob]] = {queue: [] for queue in shares}
        left = limit
        for offered in (shares, dict.fromkeys(shares, limit)):  # then what others left over
            for queue, share in offered.items():
                most = min(share, left, room[queue] - len(taken[queue]))
                more = self._lease(merged(lanes[queue], budget), most)
                taken[queue] += more
                left -= len(more)
        return [job for queue in shares for job in taken[queue]]

    def _lease(self, line: Iterator[int], most: int) -> list[ClaimedJob]:
        return [
            lease(self._jobs, record, self._request, token=self._clock.new_token(), now=self._now)
            for record in self._fitting(self._jobs.roll[seq] for seq in islice(line, most))
        ]

    def _fitting(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield *records* up to the first that would be too much for one claim."""
        for record in records:
            size = len(record.payload.data)
            if record.checkpoint is not None:
                size += len(record.checkpoint.data)
            self._is_full |= self._bytes > 0 and self._bytes + size > CLAIM_BYTES_MAX
            if self._is_full:
                return
            self._bytes += size
            yield record

    def types_in_line(self) -> set[str]:
        """Return the types that have claimable jobs for this worker."""
        return {type for lanes in self._open_lanes(()).values() for type in lanes}

    def _open_lanes(self, closed: Collection[str]) -> dict[str, dict[str, Line]]:
        """Return the lanes that this claim may take from, by queue and type.

        A queue that the request names is dealt turns even when it has nothing to give.
        """
        shut = self._settings.paused_types().union(closed)
        queues = self._request.queues
        served = self._jobs.lanes.queues(self._request.types) if queues is None else queues
        lanes = {
            queue: {}
            if self._settings.is_queue_paused(queue)
            else self._jobs.lanes.open(queue, self._request.types, shut)
            for queue in served
        }
        if not self._request.own_types:
            lanes = {
                queue: {t: line for t, line in lines.items() if not t.startswith(RESERVED_TYPES)}
                for queue, lines in lanes.items()
            }
        if queues is not None:
            return lanes
        return {queue: lines for queue, lines in lanes.items() if lines}


def _wait(jobs: JobTable, opens_at: int | None, now: int) -> float | None:
    """Return the seconds until a job falls due, a lease runs out or a rate lets a job start."""
    heads = [head[0] for line in (jobs.due, jobs.leases) if (head := line.first())]
    first = soonest([*heads, opens_at])
    return None if first is None else max(first - now, 0) / 1_000_000


class Running:
    """How many jobs run under valid leases; an expired one takes up no room (S2-18)."""

    def __init__(self, jobs: JobTable, now: int) -> None:
        self._jobs = jobs
        self._expired = Counter(jobs.roll[seq].queue for seq in jobs.leases.before((now + 1,)))

    def total(self) -> int:
        return len(self._jobs.leases) - self._expired.total()

    def of_queue(self, queue: str) -> int:
        return self._jobs.counts.running(queue) - self._expired[queue]

    def app_room(self, settings: LaneSettings, wanted: int) -> int:
        """Return how many of *wanted* jobs may start."""
        limit = settings.app_limit
        return wanted if limit is None else max(min(wanted, limit - self.total()), 0)

    def queue_room(self, settings: LaneSettings, queue: str, wanted: int) -> int:
        """Return how many of *wanted* jobs of *queue* may start."""
        limit = settings.queue_limit(queue)
        return wanted if limit is None else max(min(wanted, limit - self.of_queue(queue)), 0)

"""Which jobs a claim takes: turns between queues, limits, and the lines inside them."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from fencepost.clock import Clock
from fencepost.core.job import ClaimedJob
from fencepost.core.limits import CLAIM_MAX, EXPIRE_BATCH, PROMOTE_BATCH, RECOVER_BATCH
from fencepost.core.weights import deal
from fencepost.store.memory.jobs import Jobs
from fencepost.store.memory.lanes import merged
from fencepost.store.memory.line import Line
from fencepost.store.memory.moves import expire, lease, promote, recover
from fencepost.store.memory.settings import Settings
from fencepost.store.replies import Claim
from fencepost.store.requests import ClaimRequest


def claim(jobs: Jobs, settings: Settings, clock: Clock, request: ClaimRequest) -> Claim:
    """Bring the jobs up to date (bounded), then lease what is claimable."""
    now = clock.now_us()
    recovered = recover(jobs, RECOVER_BATCH, clock.rng, now)
    expired = expire(jobs, EXPIRE_BATCH, now)
    promoted = promote(jobs, PROMOTE_BATCH, now)
    claimed = _take(jobs, settings, clock, request, now)
    return Claim(
        jobs=claimed,
        recovered=recovered,
        expired=expired,
        promoted=len(promoted),
        wait=_wait(jobs, now),
    )


def _take(
    jobs: Jobs, settings: Settings, clock: Clock, request: ClaimRequest, now: int
) -> list[ClaimedJob]:
    running = Running(jobs, now)
    limit = min(request.limit, CLAIM_MAX, running.app_room(settings, request.limit))
    lanes = _open_lanes(jobs, settings, request)
    if limit <= 0 or not lanes:
        return []
    room = {
        queue: running.queue_room(settings, queue, sum(map(len, lines)))
        for queue, lines in lanes.items()
    }
    weights = request.queues if request.queues is not None else dict.fromkeys(lanes, 1)
    shares = allot(deal(weights, request.turn, limit), room, limit)
    return [
        lease(jobs, jobs.roll[seq], request, token=clock.new_token(), now=now)
        for queue, share in shares.items()
        for seq in islice(merged(lanes[queue]), share)
    ]


def _open_lanes(jobs: Jobs, settings: Settings, request: ClaimRequest) -> dict[str, list[Line]]:
    """Return the lanes that this claim may take from, by queue.

    A queue that the request names is dealt turns even when it has nothing to give.
    """
    paused = settings.paused_types()
    queues = jobs.lanes.queues() if request.queues is None else list(request.queues)
    lanes = {
        queue: []
        if settings.is_queue_paused(queue)
        else jobs.lanes.open(queue, request.types, paused)
        for queue in queues
    }
    if request.queues is not None:
        return lanes
    return {queue: lines for queue, lines in lanes.items() if lines}


def allot(shares: dict[str, int], room: dict[str, int], limit: int) -> dict[str, int]:
    """Return how many jobs each queue gives: its share, and then what others could not fill."""
    taken = {queue: min(share, room[queue]) for queue, share in shares.items()}
    left = limit - sum(taken.values())
    for queue in taken:
        extra = min(left, room[queue] - taken[queue])
        taken[queue] += extra
        left -= extra
    return taken


def _wait(jobs: Jobs, now: int) -> float | None:
    """Return the seconds until a job falls due or a lease runs out."""
    heads = [head[0] for line in (jobs.due, jobs.leases) if (head := line.first())]
    return max(min(heads) - now, 0) / 1_000_000 if heads else None


class Running:
    """How many jobs run under valid leases; an expired one takes up no room (S2-18)."""

    def __init__(self, jobs: Jobs, now: int) -> None:
        self._jobs = jobs
        self._expired = Counter(jobs.roll[seq].queue for seq in jobs.leases.before((now + 1,)))

    def total(self) -> int:
        return len(self._jobs.leases) - self._expired.total()

    def of_queue(self, queue: str) -> int:
        return self._jobs.counts.running(queue) - self._expired[queue]

    def app_room(self, settings: Settings, wanted: int) -> int:
        """Return how many of *wanted* jobs may start."""
        limit = settings.app_limit
        return wanted if limit is None else max(min(wanted, limit - self.total()), 0)

    def queue_room(self, settings: Settings, queue: str, wanted: int) -> int:
        """Return how many of *wanted* jobs of *queue* may start."""
        limit = settings.queue_limit(queue)
        return wanted if limit is None else max(min(wanted, limit - self.of_queue(queue)), 0)

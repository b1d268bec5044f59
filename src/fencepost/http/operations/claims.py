"""Claiming: a worker in any language takes jobs under leases.

A claim whose answer nobody hears would hold its jobs until the leases run out, and count as an
attempt of each. So whoever has hung up by the time the jobs are there gets none: they are released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from fencepost.actions.local.steps import Pause
from fencepost.actions.script import Script
from fencepost.actions.session import Session
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import (
    ANNOUNCE_INTERVAL,
    CLAIM_MAX,
    HTTP_WAIT_MAX,
    HTTP_WORKERS_MAX,
    POLL_INTERVAL,
    WEIGHT_TOTAL_MAX,
    WORKER_LENGTH_MAX,
)
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Released, decide, settlement_of
from fencepost.core.job.timeouts import parse_lease_ttl
from fencepost.core.limits.weights import parse_weights
from fencepost.core.values.duration import parse_duration
from fencepost.core.values.names import RESERVED_TYPES, check_name, check_own_type
from fencepost.errors import FencepostError, StoreError
from fencepost.http.auth.scope import check_queue_allowed, known_dependencies
from fencepost.http.auth.watch import TokenWatch
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.queue import Claim, ClaimRequest
from fencepost.wire.leases import ClaimBody, ClaimReply, claimed_of


async def claim_jobs(call: Call[ClaimBody, Nothing]) -> Reply:
    """Lease jobs to a worker, waiting for some if it asks so."""
    session, body = call.session, call.body
    timeout = parse_duration(body.timeout, name="timeout", maximum=HTTP_WAIT_MAX)
    request = _request(session, body, call.principal)
    call.listen()
    await call.api.roll.announce(session, request)
    if timeout:
        async with TokenWatch(call) as watch:
            claim = await session.run_async(_claim(session, request, timeout, watch.is_off))
        await _check_again(call, claim.jobs)
    else:
        claim = await session.run_async(_claim(session, request, timeout, call.is_off))
    if claim.jobs and call.is_gone():
        await _give_back(session, claim.jobs)
        raise HttpError("nobody is there to take the jobs; they were released")
    try:
        found = await known_dependencies(call, await _dependencies(session, claim.jobs))
    except StoreError:
        with suppress(StoreError):  # then the leases run out
            await _give_back(session, claim.jobs)
        raise
    jobs = [claimed_of(job, found.get(job.id, [])) for job in claim.jobs]
    wait = POLL_INTERVAL if claim.wait is None else min(claim.wait, POLL_INTERVAL)
    if call.principal.queues is not None:
        wait = POLL_INTERVAL  # a store says when anything falls due, in whatever queue
    return Reply(ClaimReply(jobs=jobs, wait=max(wait, 0.0)))


async def _check_again(call: Call[ClaimBody, Nothing], jobs: Sequence[ClaimedJob]) -> None:
    """Give *jobs* back and raise, if the token that waited for them is no longer good for them."""
    try:
        await call.check_again()
        for job in jobs:
            check_queue_allowed(call.principal, job.queue)
    except FencepostError:
        with suppress(StoreError):  # then the leases run out
            await _give_back(call.session, jobs)
        raise


def _request(session: Session, body: ClaimBody, principal: Principal) -> ClaimRequest:
    if not 1 <= body.limit <= CLAIM_MAX:
        raise HttpError(f"limit must lie between 1 and {CLAIM_MAX}, got {body.limit}", status=422)
    ttl = parse_lease_ttl(body.lease_ttl)
    assert ttl is not None
    return ClaimRequest(
        worker=check_name(body.worker, what="worker", limit=WORKER_LENGTH_MAX),
        limit=body.limit,
        queues=_queues(body, principal),
        types=_types(body.types),
        own_types=False,
        # Whose turn it is, nobody remembers here: chance deals by the same weights.
        turn=session.clock.rng.randrange(WEIGHT_TOTAL_MAX),
        lease_ttl=ttl,
    )


def _queues(body: ClaimBody, principal: Principal) -> dict[str, int] | None:
    if body.queues is None:
        if principal.queues is None:
            return None
        return parse_weights(sorted(principal.queues))
    queues = parse_weights(body.queues)
    for name in queues:
        check_queue_allowed(principal, name)
    return queues


def _types(given: Sequence[str] | None) -> frozenset[str] | None:
    """Return the types to claim: those given, or None for all but Fencepost's own."""
    if given is None:
        return None
    if not given:
        raise HttpError("types is empty: name one, or leave it out", status=422)
    return frozenset(check_own_type(name) for name in given)


async def _all_types(session: Session) -> list[str]:
    """Return all types that there are but for Fencepost's own; for who claims any, now and then."""
    views = await session.store.run_async(session.store.overview.types())
    return [view.name for view in views if not view.name.startswith(RESERVED_TYPES)]


def _claim(
    session: Session, request: ClaimRequest, timeout: float, is_off: Callable[[], bool]
) -> Script[Claim]:
    """Claim now, and again whenever there may be more, until there is a job or the time is up."""
    clock = session.clock
    deadline = clock.monotonic() + timeout
    if timeout:
        # Listen before looking: news that comes between the two is then not missed.
        yield Pause(Topic.READY, 0)
    while True:
        claim: Claim = yield session.store.queue.claim(request)
        left = deadline - clock.monotonic()
        if claim.jobs or left <= 0 or is_off():
            return claim
        wait = POLL_INTERVAL if claim.wait is None else min(claim.wait, POLL_INTERVAL)
        yield Pause(Topic.READY, max(min(wait, left), 0.0))


async def _give_back(session: Session, jobs: Sequence[ClaimedJob]) -> None:
    rng = session.clock.rng
    settlements = [settlement_of(job, decide(job, Released(), rng)) for job in jobs]
    if settlements:
        await session.store.run_async(session.store.queue.settle(settlements))


async def _dependencies(
    session: Session, jobs: Sequence[ClaimedJob]
) -> dict[str, list[Dependency]]:
    """Return what those jobs waited for that waited for something, with the results."""
    ids = [job.id for job in jobs if job.has_dependencies]
    if not ids:
        return {}
    found = await session.store.run_async(session.store.reader.dependencies(ids, with_results=True))
    return dict(zip(ids, found, strict=True))


class RemoteWorkers:
    """The workers that come by HTTP, so that they are listed with the others."""

    def __init__(self) -> None:
        self._announced: dict[str, WorkerInfo] = {}
        self._due: dict[str, float] = {}

    async def announce(self, session: Session, request: ClaimRequest) -> None:
        """Write down that a worker is there, now and then."""
        now = session.clock.monotonic()
        if self._due.get(request.worker, 0.0) > now:
            return
        if len(self._due) >= HTTP_WORKERS_MAX:
            self._due = {name: due for name, due in self._due.items() if due > now}
        self._due[request.worker] = now + ANNOUNCE_INTERVAL
        known = self._announced.get(request.worker)
        types = await _all_types(session) if request.types is None else request.types
        info = WorkerInfo(
            id=request.worker,
            host="http",
            pid=0,
            queues=request.queues,
            types=tuple(sorted(types)),
            # It asks for what it has free: the most that it ever had is all that is known.
            concurrency=max(request.limit, 0 if known is None else known.concurrency),
            started_at=session.clock.now() if known is None else known.started_at,
        )
        self._announced = {n: i for n, i in self._announced.items() if n in self._due}
        self._announced[request.worker] = info
        await session.store.run_async(session.store.cluster.announce(info))

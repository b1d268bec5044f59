"""Claiming: a worker in any language takes jobs under leases.

A claim whose client is gone would hold its jobs until their leases expire, and cost an attempt of
each. So if the client has hung up when the jobs are there, they are released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from fencepost.actions.backend import Script
from fencepost.actions.local.steps import Pause
from fencepost.actions.session import Session
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import ANNOUNCE_INTERVAL, CLAIM_MAX, POLL_INTERVAL, WEIGHT_TOTAL_MAX
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Released, decide, settlement_of
from fencepost.core.job.timeouts import parse_lease_ttl
from fencepost.core.limits.weights import parse_weights
from fencepost.core.values.names import RESERVED_TYPES, check_name, check_own_type
from fencepost.core.values.times import parse_duration
from fencepost.errors import FencepostError, StoreError
from fencepost.http.request.call import Call, Nothing, Reply, token_watch
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import WORK, route
from fencepost.http.scope import check_queue_allowed, known_dependencies
from fencepost.store.interface.queue import Claim, ClaimRequest
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.store import Topic
from fencepost.wire.bounds import HTTP_WAIT_MAX, HTTP_WORKERS_MAX, WORKER_LENGTH_MAX
from fencepost.wire.leases import ClaimBody, ClaimReply, claimed_of


@route(
    "POST /v1/claims",
    "Claim jobs under leases",
    ClaimReply,
    "invalid_job invalid_duration",
    roles=WORK,
)
async def claim_jobs(call: Call[ClaimBody, Nothing]) -> Reply:
    """Lease jobs to a worker, with ``timeout`` also waiting for some."""
    session, body = call.session, call.body
    timeout = parse_duration(body.timeout, name="timeout", maximum=HTTP_WAIT_MAX)
    request = _request(session, body, call.principal)
    call.listen()
    await call.api.roll.announce(session, request)
    if timeout:
        async with token_watch(call) as is_off:
            claim = await session.run_async(_claim(session, request, timeout, is_off))
        await _check_again(call, claim.jobs)
    else:
        claim = await session.run_async(_claim(session, request, timeout, call.is_off))
    if claim.jobs and call.is_gone():
        await _give_back(session, claim.jobs)
        raise HttpError("the client is gone; its jobs were released", status=400)
    try:
        found = await known_dependencies(call, await _dependencies(session, claim.jobs))
    except StoreError:
        with suppress(StoreError):  # then the leases expire
            await _give_back(session, claim.jobs)
        raise
    jobs = [claimed_of(job, found.get(job.id, [])) for job in claim.jobs]
    wait = POLL_INTERVAL if claim.wait is None else min(claim.wait, POLL_INTERVAL)
    if call.principal.queues is not None:
        wait = POLL_INTERVAL  # the store's hint is about all queues
    return Reply(ClaimReply(jobs=jobs, wait=max(wait, 0.0)))


async def _check_again(call: Call[ClaimBody, Nothing], jobs: Sequence[ClaimedJob]) -> None:
    """Release *jobs* and raise if the token does not allow them, or the claim, any more."""
    try:
        await call.check_again()
        _queues(call.body, call.principal)
        for job in jobs:
            check_queue_allowed(call.principal, job.queue)
    except FencepostError:
        with suppress(StoreError):  # then the leases expire
            await _give_back(call.session, jobs)
        raise


def _request(session: Session, body: ClaimBody, principal: Principal) -> ClaimRequest:
    if not 1 <= body.limit <= CLAIM_MAX:
        raise HttpError(f"limit must lie between 1 and {CLAIM_MAX}, got {body.limit}")
    ttl = parse_lease_ttl(body.lease_ttl)
    assert ttl is not None
    return ClaimRequest(
        worker=check_name(body.worker, what="worker", limit=WORKER_LENGTH_MAX),
        limit=body.limit,
        queues=_queues(body, principal),
        types=_types(body.types),
        own_types=False,
        # The server keeps no turns between requests: a random one follows the same weights.
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
    """Return the types to claim; None: all but Fencepost's own."""
    if given is None:
        return None
    if not given:
        raise HttpError("types is empty: name one, or leave the field out")
    return frozenset(check_own_type(name) for name in given)


async def _all_types(session: Session) -> list[str]:
    """Return all types but Fencepost's own, to announce a worker that claims any."""
    views = await session.store.run_async(session.store.overview.types())
    return [view.name for view in views if not view.name.startswith(RESERVED_TYPES)]


def _claim(
    session: Session, request: ClaimRequest, timeout: float, is_off: Callable[[], bool]
) -> Script[Claim]:
    """Claim, and again whenever there may be jobs, until there is one or the time is up."""
    clock = session.clock
    deadline = clock.monotonic() + timeout
    if timeout:
        # Listen before the first claim, so that no notification in between is missed.
        yield Pause(Topic.READY, 0)
    while True:
        claim: Claim = yield session.store.queue.claim(request)
        left = deadline - clock.monotonic()
        if claim.jobs or left <= 0 or is_off():
            return claim
        wait = POLL_INTERVAL if claim.wait is None else min(claim.wait, POLL_INTERVAL)
        yield Pause(Topic.READY, max(min(wait, left), 0.0))
        if is_off():  # the token may allow less by now
            return claim


async def _give_back(session: Session, jobs: Sequence[ClaimedJob]) -> None:
    rng = session.clock.rng
    settlements = [settlement_of(job, decide(job, Released(), rng)) for job in jobs]
    if settlements:
        await session.store.run_async(session.store.queue.settle(settlements))


async def _dependencies(
    session: Session, jobs: Sequence[ClaimedJob]
) -> dict[str, list[Dependency]]:
    """Return the dependencies of those jobs that have some, with results."""
    ids = [job.id for job in jobs if job.has_dependencies]
    if not ids:
        return {}
    found = await session.store.run_async(session.store.reader.dependencies(ids, with_results=True))
    return dict(zip(ids, found, strict=True))


class RemoteWorker(NamedTuple):
    """A worker that uses HTTP, as a server remembers it."""

    due: float
    """When to announce it again."""
    concurrency: int
    started_at: datetime


class RemoteWorkers:
    """Workers that use HTTP, so that they are listed with the others; up to HTTP_WORKERS_MAX.

    Clients choose their names. Those over the bound claim like others, and are not listed.
    """

    def __init__(self) -> None:
        self._known: dict[str, RemoteWorker] = {}
        self._full_until = 0.0

    async def announce(self, session: Session, request: ClaimRequest) -> None:
        """Record at intervals that a worker is there."""
        now = session.clock.monotonic()
        known = self._known.get(request.worker)
        if self._is_full(now) if known is None else known.due > now:
            return
        worker = RemoteWorker(
            due=now + ANNOUNCE_INTERVAL,
            # A claim asks for free slots: the most ever asked for is all that is known.
            concurrency=max(request.limit, 0 if known is None else known.concurrency),
            started_at=session.clock.now() if known is None else known.started_at,
        )
        self._known[request.worker] = worker
        types = await _all_types(session) if request.types is None else request.types
        info = WorkerInfo(
            id=request.worker,
            host="http",
            pid=0,
            queues=request.queues,
            types=tuple(sorted(types)),
            concurrency=worker.concurrency,
            started_at=worker.started_at,
        )
        await session.store.run_async(session.store.cluster.announce(info))

    def _is_full(self, now: float) -> bool:
        """Return whether there is no room for one more, after those were dropped that are gone."""
        if len(self._known) < HTTP_WORKERS_MAX:
            return False
        if now < self._full_until:
            return True
        # One that waits for a job is not heard meanwhile.
        self._known = {n: each for n, each in self._known.items() if each.due + HTTP_WAIT_MAX > now}
        self._full_until = now + ANNOUNCE_INTERVAL
        return len(self._known) >= HTTP_WORKERS_MAX

"""What holds after every run, whichever call failed and however."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fencepost import Job, State
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import AttemptOutcome, Body, NewJob
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.store.interface.queue import AlreadySettled, Beat, LeaseLost, Save, Spawn
from lab.nth.graphs import forgotten
from lab.nth.world import World


def broken(world: World, *, is_faulty: bool) -> list[str]:
    """Return every promise that the run broke, in words."""
    jobs = {job.id: job for job in world.jobs()}
    return [
        *world.complaints,
        *world.store.audit.violations,
        *_lost_or_surplus(world, jobs),
        *_badly_ended(world, jobs, is_faulty=is_faulty),
        *_run_twice(world),
        *_bad_histories(world, jobs),
        *_miscounted(world, list(jobs.values())),
        *forgotten(world.store.inner, jobs.values()),
        *_stale_writes(world, jobs),
    ]


def _lost_or_surplus(world: World, jobs: dict[str, Job]) -> Iterator[str]:
    for job_id in world.expected.keys() - jobs.keys():
        yield f"{job_id} was acknowledged and is lost"
    for job_id in jobs.keys() - world.expected.keys():
        yield f"{job_id} ({jobs[job_id].type}) is one job too many"


def _badly_ended(world: World, jobs: dict[str, Job], *, is_faulty: bool) -> Iterator[str]:
    runs = Counter(run.job_id for run in world.runs)
    for job_id, expected in world.expected.items():
        job = jobs.get(job_id)
        if job is None:
            continue
        if job.state is not expected.state:
            yield f"{job.type} ended {job.state}, expected {expected.state}"
        most = expected.runs + (expected.more_runs if is_faulty else 0)
        if not expected.runs <= runs[job_id] <= most:
            yield f"{job.type} ran {runs[job_id]} times, expected {expected.runs} to {most}"
        if job.attempt > job.max_attempts:
            yield f"{job.type} took {job.attempt} attempts of {job.max_attempts}"


def _run_twice(world: World) -> Iterator[str]:
    for token, count in Counter(run.token for run in world.runs).items():
        if count > 1:
            yield f"one lease ran its handler {count} times"
        if token not in world.store.audit.tokens:
            yield "a handler ran under a lease that nobody handed out"


def _bad_histories(world: World, jobs: dict[str, Job]) -> Iterator[str]:
    store = world.store.inner
    leases = Counter(world.store.audit.tokens.values())
    for job in jobs.values():
        attempts = store.run(store.reader.attempts(job.id)) or []
        versions = [attempt.lease_version for attempt in attempts]
        if len(attempts) != leases[job.id]:
            yield f"{job.type} has {len(attempts)} attempts on record, of {leases[job.id]}"
        if versions != sorted({*versions, job.lease_version} - {0}):
            yield f"{job.type} had leases {versions}, the last is {job.lease_version}"
        if any(attempt.outcome is AttemptOutcome.RUNNING for attempt in attempts):
            yield f"{job.type} is {job.state} and has an attempt that runs"
        if job.state.is_terminal != (job.completed_at is not None):
            yield f"{job.type} is {job.state}, completed at {job.completed_at}"


def _miscounted(world: World, jobs: list[Job]) -> Iterator[str]:
    """Compare every counter with a recount."""
    store = world.store.inner
    for state in State:
        counted = store.run(store.reader.count(JobFilter(states=(state,))))
        found = sum(job.state is state for job in jobs)
        if counted != found:
            yield f"{counted} jobs are counted as {state}, and there are {found}"
    for name, views in (
        ("queue", store.run(store.overview.queues())),
        ("type", store.run(store.overview.types())),
    ):
        counts = {(view.name, state): n for view in views for state, n in view.counts.items()}
        recount = Counter((getattr(job, name), job.state) for job in jobs)
        if counts != dict(recount):
            yield f"the counters by {name} say {counts}, a recount {dict(recount)}"


def _stale_writes(world: World, jobs: dict[str, Job]) -> Iterator[str]:
    """Write under every lease there ever was: all have ended, and none may be accepted."""
    store = world.store.inner
    before = _snapshot(world)
    for token, job_id in world.store.audit.tokens.items():
        job = jobs.get(job_id)
        if job is None:
            continue
        decision = decide(job, Succeeded(Body(b'"stale"')), world.clock.rng)
        (settled,) = store.run(store.queue.settle([Settlement(job_id, token, decision)]))
        if not isinstance(settled, AlreadySettled | LeaseLost):
            yield f"a stale settlement of {job.type} was accepted"
        (beaten,) = store.run(store.queue.heartbeat([Beat(job_id, token, 60.0)]))
        if not isinstance(beaten, LeaseLost):
            yield f"a stale heartbeat of {job.type} was accepted"
        (saved,) = store.run(store.queue.save([Save(job_id, token, checkpoint=Body(b'"stale"'))]))
        if not isinstance(saved, LeaseLost):
            yield f"a stale checkpoint of {job.type} was accepted"
        (spawned,) = store.run(store.queue.spawn([Spawn(job_id, token, (NewJob(type="stale"),))]))
        if not isinstance(spawned, LeaseLost):
            yield f"a stale {job.type} spawned"
    if _snapshot(world) != before:
        yield "stale writes left a trace"


def _snapshot(world: World) -> Any:
    store = world.store.inner
    letters = store.run(store.reader.dead_letters(None, PageRequest(PAGE_MAX)))
    return world.jobs(), letters, store.run(store.overview.queues())

"""The scenario of jobs that a worker has claimed ahead, and that wait for its only slot."""

from __future__ import annotations

from fencepost import Context, State
from lab.nth.world import LEASE_TTL, World

SECONDS = 1.25 * LEASE_TTL
"""How long a job takes: those behind it wait for longer than a lease lasts."""


async def claimed_ahead(world: World) -> None:
    """Jobs wait in a worker's hand for longer than a lease; two are cancelled meanwhile."""

    @world.app.task
    async def patient(ctx: Context) -> None:
        world.ran(ctx)
        await world.clock.sleep_async(SECONDS)

    jobs = [await world.submit(patient, key=f"p{n}") for n in range(4)]
    worker = world.app.worker(lease_ttl=LEASE_TTL, concurrency=1, prefetch=3)
    working = world.start(worker.aio.run())
    await world.until(lambda: bool(world.runs), "the first job to run")
    first = world.runs[0].job_id
    next_one, last, other = [job for job in jobs if job.id != first]
    await world.cancel(last.id)
    # Between two heartbeats, a moment before its turn: only who asks again can know.
    await world.clock.sleep_async(SECONDS - 0.15)
    await world.cancel(next_one.id)
    await world.until(
        lambda: all(world.job(job.id).state.is_terminal for job in jobs), "all jobs to end"
    )
    worker.stop()
    await working
    world.expect(next_one.id, State.CANCELLED, runs=0, more_runs=1)
    world.expect(last.id, State.CANCELLED, runs=0)
    for job_id in (first, other.id):
        lost = world.leases_lost(job_id)
        world.require(lost <= world.store.has_failed, f"{lost} leases were lost while in hand")
        world.expect(job_id, State.COMPLETED)

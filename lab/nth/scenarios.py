"""The scenarios: what callers and workers do, written so that one failed call changes no outcome.

Handlers fail and wait by how often their job has run, never by the number of the attempt: a claim
whose answer is lost uses up an attempt in which nothing ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from fencepost import Context, PermanentError, Retry, Snooze, State, TemporaryError
from fencepost.core.job.job import Body, Category, ClaimedJob, Failure
from fencepost.core.job.outcome import Failed, Outcome, Released, Settlement, Succeeded, decide
from fencepost.core.values.payload import NULL
from fencepost.errors import JobNotFoundError
from fencepost.handles.job import AsyncJobHandle
from fencepost.store.interface.queue import Beat, Claim, ClaimRequest, LeaseLost, Save
from fencepost.store.interface.settings import Scope
from lab.nth.completion import completed_in_a_transaction
from lab.nth.events import sent
from lab.nth.flows import flowed
from lab.nth.lateness import begun_late
from lab.nth.world import LEASE_TTL, World

Play = Callable[[World], Awaitable[None]]


class Scenario(msgspec.Struct, frozen=True):
    """Something that callers and workers do."""

    name: str
    play: Play
    is_for_postgres_only: bool = False

    @property
    def about(self) -> str:
        return (self.play.__doc__ or "").split("\n")[0]


async def keyed(world: World) -> None:
    """Submissions under keys are repeated, worked off, and repeated again."""

    @world.app.task
    async def keyed(ctx: Context, number: int) -> int:
        world.ran(ctx)
        return number

    @world.app.task
    async def unique(ctx: Context) -> None:
        if world.ran(ctx) == 1:
            again = await world.submit(unique, key="u", key_window="active")
            world.require(again.id == ctx.job_id, "a job that runs did not hold its key")

    jobs = [await world.submit(keyed, n, key=f"k{n}") for n in range(2)]
    jobs += [await world.submit(keyed, n, key=f"k{n}") for n in range(2)]
    jobs += [await world.submit(unique, key="u", key_window="active")]
    await world.finish()
    jobs += [await world.submit(keyed, n, key=f"k{n}") for n in range(2)]
    world.require(len({job.id for job in jobs}) == 3, "a repeat under the same key made a job")
    for job in jobs:
        world.expect(job.id, State.COMPLETED)


async def retried(world: World) -> None:
    """One job fails twice and then succeeds, one fails for good, one until its attempts end."""

    @world.app.task
    async def recovering(ctx: Context) -> None:
        if world.ran(ctx) < 3:
            raise TemporaryError("not yet")

    @world.app.task
    async def hopeless(ctx: Context) -> None:
        world.ran(ctx)
        raise PermanentError("never")

    @world.app.task(retry=Retry(max_attempts=2, initial_delay=0.5))
    async def exhausted(ctx: Context) -> None:
        world.ran(ctx)
        raise TemporaryError("not today")

    jobs = [await world.submit(task, key=task.type) for task in (recovering, hopeless, exhausted)]
    await world.finish()
    world.expect(jobs[0].id, State.COMPLETED, runs=3)
    world.expect(jobs[1].id, State.FAILED)
    # A claim whose answer is lost is an attempt too: then the handler runs once less.
    lost = world.leases_lost(jobs[2].id)
    world.require(lost <= 1, "one fault cost two attempts")
    world.require(world.job(jobs[2].id).attempt == 2, "there were not as many attempts as allowed")
    world.expect(jobs[2].id, State.DEAD_LETTER, runs=2 - lost)


async def checkpointed(world: World) -> None:
    """A job that saves its steps fails half-way, and goes on from where it was."""
    steps: list[int] = []

    @world.app.task
    async def stepping(ctx: Context) -> None:
        times = world.ran(ctx)
        for step in range(ctx.last_checkpoint or 0, 4):
            steps.append(step)
            await ctx.aio.checkpoint(step + 1)
            await ctx.aio.progress((step + 1) / 4)
            if times == 1 and step == 1:
                raise TemporaryError("half-way")

    job = await world.submit(stepping, key="steps")
    await world.finish()
    world.require(sorted(set(steps)) == [0, 1, 2, 3], f"steps {steps} were done")
    world.require(steps == sorted(steps), f"a step was done again after a later one: {steps}")
    world.require(len(steps) <= 5, f"one fault had more than one step done again: {steps}")
    world.expect(job.id, State.COMPLETED, runs=2, more_runs=1)


async def cancelled(world: World) -> None:
    """A job is cancelled while it runs, and one before it runs; a third goes on."""
    ended: list[str] = []
    stopped: dict[str, str | None] = {}

    @world.app.task
    async def endless(ctx: Context) -> None:
        world.ran(ctx)
        try:
            await world.clock.sleep_async(60.0)
        except asyncio.CancelledError:
            stopped[ctx.job_id] = ctx.cancel_reason
            raise
        ended.append(ctx.job_id)

    @world.app.task
    async def beside(ctx: Context) -> None:
        world.ran(ctx)
        await world.clock.sleep_async(3.0)

    running = await world.submit(endless, key="running")
    third = await world.submit(beside, key="third")
    waiting = await world.submit(endless, key="waiting", delay=30.0)
    worker = world.app.worker(lease_ttl=LEASE_TTL, concurrency=4)
    working = world.start(worker.aio.run())
    await world.until(lambda: _runs(world, running.id) > 0, "the endless job to run")
    await world.cancel(running.id)
    await world.cancel(waiting.id)
    await world.until(lambda: running.id in stopped, "the handler to be stopped")
    worker.stop()
    await working
    await world.finish()
    world.require(not ended, "a cancelled handler ran to its end")
    world.require(stopped == {running.id: "cancelled"}, f"handlers were stopped: {stopped}")
    world.expect(running.id, State.CANCELLED)
    world.expect(waiting.id, State.CANCELLED, runs=0)
    world.expect(third.id, State.COMPLETED)


async def replayed(world: World) -> None:
    """A dead letter is replayed: one fresh job in its place, however often it is asked for."""
    is_mended: list[bool] = []

    @world.app.task(retry=Retry(max_attempts=1, initial_delay=0.5))
    async def brittle(ctx: Context) -> str:
        world.ran(ctx)
        if not is_mended:
            raise PermanentError("broken")
        return "whole"

    @world.app.task
    async def other(ctx: Context) -> None:
        world.ran(ctx)
        raise PermanentError("broken too")

    job = await world.submit(brittle, key="brittle")
    left = await world.submit(other, key="other")
    await world.finish()
    dead = world.job(job.id)
    is_mended.append(True)
    with suppress(JobNotFoundError):  # the repeat of a replay whose answer was lost
        await world.insist(lambda: world.app.aio.dead_letters.replay(job.id))
    fresh = [each for each in world.jobs() if each.replay_of == job.id]
    world.require(len(fresh) == 1, f"{len(fresh)} fresh jobs for one dead letter")
    await world.finish()
    # With a single attempt, a claim whose answer is lost is the end of the job.
    runs = _runs(world, job.id)
    is_lost = dead.failure is not None and dead.failure.code == "lease_expired"
    world.expect(job.id, State.DEAD_LETTER if is_lost else State.FAILED, runs=runs)
    world.require(runs == (0 if is_lost else 1), f"the brittle job ran {runs} times")
    world.expect(left.id, State.FAILED)
    for each in fresh:
        ended = world.job(each.id)
        is_lost = ended.state is State.DEAD_LETTER
        world.require(
            not is_lost or (ended.failure is not None and ended.failure.code == "lease_expired"),
            "the mended job is dead for another reason than a lost lease",
        )
        state = State.DEAD_LETTER if is_lost else State.COMPLETED
        world.expect(each.id, state, runs=0 if is_lost else 1)


def _runs(world: World, job_id: str) -> int:
    return sum(run.job_id == job_id for run in world.runs)


async def shared(world: World) -> None:
    """A batch is submitted at once, all or none, and worked off by two workers."""

    @world.app.task
    async def small(ctx: Context, number: int) -> int:
        world.ran(ctx)
        await world.clock.sleep_async(0.05 * number)
        return number

    batch = [small.using(key=f"b{n}", priority=n % 3).prepare(n) for n in range(8)]
    handles: list[AsyncJobHandle[Any]] = await world.insist(
        lambda: world.app.aio.submit_many(batch)
    )
    world.require(len({job.id for job in handles}) == 8, "a batch stored some jobs twice")
    await world.finish({"concurrency": 2}, {"concurrency": 2})
    for job in handles:
        world.expect(job.id, State.COMPLETED)


async def handed_back(world: World) -> None:
    """A job snoozes; others are released when their worker stops; none of that counts."""

    @world.app.task
    async def sleepy(ctx: Context) -> int:
        if world.ran(ctx) == 1:
            raise Snooze(1.0)
        return ctx.attempt

    @world.app.task
    async def slow(ctx: Context) -> int:
        if world.ran(ctx) == 1:
            await world.clock.sleep_async(60.0)
        return ctx.attempt

    dozing = await world.submit(sleepy, key="sleepy")
    stopped = await world.submit(slow, key="slow")
    worker = world.app.worker(lease_ttl=LEASE_TTL, concurrency=4, grace=0.5)
    working = world.start(worker.aio.run())
    await world.until(lambda: _runs(world, stopped.id) == 1, "the slow job to run")
    worker.stop()
    await working
    await world.finish()
    world.expect(dozing.id, State.COMPLETED, runs=2)
    world.expect(stopped.id, State.COMPLETED, runs=2)
    for job in (dozing, stopped):
        attempts = world.store.inner.run(world.store.inner.reader.attempts(job.id)) or []
        failed = sum(a.outcome == "failed" for a in attempts)
        number = world.job(job.id).attempt
        world.require(number == failed + 1, f"{number} attempts counted, {failed} failed")
        world.require(failed <= 1, "one fault cost two attempts")


async def crashed(world: World) -> None:
    """A worker falls silent, another takes its jobs over, and the first comes back too late."""

    @world.app.task
    async def inherited(ctx: Context) -> int:
        world.ran(ctx)
        await world.clock.sleep_async(1.0)
        return ctx.attempt

    job = await world.submit(inherited, key="inherited")
    store = world.store
    request = ClaimRequest(
        worker="silent", limit=1, types=frozenset({"inherited"}), lease_ttl=LEASE_TTL
    )
    claim: Claim = await world.insist(lambda: store.run_async(store.queue.claim(request)))
    zombies = [world.start(_come_back(world, held)) for held in claim.jobs]
    await world.finish()
    await asyncio.gather(*zombies)
    lost = world.leases_lost(job.id)
    world.require(1 <= lost <= 2, f"{lost} leases were lost by a crash and at most one fault")
    world.require(world.job(job.id).attempt == lost + 1, "a lost lease was not counted")
    world.expect(job.id, State.COMPLETED)


async def _come_back(world: World, held: ClaimedJob) -> None:
    """Write under a lease that has run out: at its very end, and while another has the job."""
    store = world.store
    beat = Beat(held.id, held.lease.token, LEASE_TTL)
    save = Save(held.id, held.lease.token, checkpoint=Body(b'"stale"'))
    outcomes: list[Outcome] = [
        Succeeded(NULL),
        Failed(Failure(Category.TEMPORARY, "late")),
        Released(),
    ]
    settlements = [
        Settlement(held.id, held.lease.token, decide(held, outcome, world.clock.rng))
        for outcome in outcomes
    ]

    async def write() -> None:
        for operation in (
            store.queue.heartbeat([beat]),
            store.queue.save([save]),
            *(store.queue.settle([each]) for each in settlements),
        ):
            replies = await world.insist(lambda made=operation: store.run_async(made))  # type: ignore[misc]
            world.require(
                isinstance(replies[0], LeaseLost), f"a late {operation.name} was accepted"
            )

    await world.clock.sleep_async((held.lease.expires_at - world.clock.now()).total_seconds())
    await write()
    await world.until(lambda: _runs(world, held.id) > 0, "the job to run again")
    await world.clock.sleep_async(0.5)
    await write()


async def limited(world: World) -> None:
    """A queue runs one job at a time, another is paused and resumed."""
    at_once = [0]
    most = [0]

    @world.app.task(queue="narrow")
    async def narrow(ctx: Context) -> None:
        world.ran(ctx)
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        await world.clock.sleep_async(0.2)
        at_once[0] -= 1

    @world.app.task(queue="still")
    async def still(ctx: Context) -> None:
        world.ran(ctx)

    store = world.store
    await world.insist(lambda: store.run_async(store.settings.limit(Scope.QUEUE, "narrow", 1)))
    await world.insist(lambda: store.run_async(store.settings.pause(Scope.QUEUE, "still")))
    jobs = [await world.submit(narrow, key=f"n{n}") for n in range(3)]
    paused = await world.submit(still, key="still")
    await asyncio.gather(world.work(), world.work())
    world.require(not _runs(world, paused.id), "a job of a paused queue ran")
    await world.insist(lambda: store.run_async(store.settings.resume(Scope.QUEUE, "still")))
    await world.finish({}, {})
    world.require(most[0] == 1, f"{most[0]} jobs ran at once in a queue for one")
    for job in (*jobs, paused):
        world.expect(job.id, State.COMPLETED)


async def outlived(world: World) -> None:
    """Delayed jobs come in time, and one whose lifetime ends in the line is a dead letter."""
    started: dict[str, float] = {}

    @world.app.task
    async def later(ctx: Context) -> None:
        world.ran(ctx)
        started[ctx.job_id] = world.clock.monotonic()

    @world.app.task(queue="nobody")
    async def unwanted(ctx: Context) -> None:
        world.ran(ctx)

    submitted_at = world.clock.monotonic()
    jobs = [await world.submit(later, key=f"l{n}", delay=n + 1.0) for n in range(2)]
    expiring = await world.submit(unwanted, key="expiring", lifetime=3.0)
    await world.finish({"queues": ["default"]})
    for number, job in enumerate(jobs):
        early = started[job.id] - submitted_at < number + 1.0
        world.require(not early, "a delayed job ran before its time")
        world.expect(job.id, State.COMPLETED)
    world.expect(expiring.id, State.DEAD_LETTER, runs=0)


SCENARIOS = (
    Scenario("keyed", keyed),
    Scenario("retried", retried),
    Scenario("checkpointed", checkpointed),
    Scenario("cancelled", cancelled),
    Scenario("replayed", replayed),
    Scenario("sent", sent),
    Scenario("shared", shared),
    Scenario("handed_back", handed_back),
    Scenario("crashed", crashed),
    Scenario("limited", limited),
    Scenario("outlived", outlived),
    Scenario("begun_late", begun_late),
    Scenario("flowed", flowed),
    Scenario("completed_in", completed_in_a_transaction, is_for_postgres_only=True),
)

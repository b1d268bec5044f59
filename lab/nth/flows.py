"""The scenario of jobs that wait for others: a diamond that fans out, and a way that ends early."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost import Context, PermanentError, State
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import Spawn, Spawned
from lab.nth.world import World

LEAVES = 2


async def flowed(world: World) -> None:
    """A diamond fans out at one of its sides; another way ends with its first job."""
    spawned: dict[str, None] = {}

    @world.app.task
    async def node(ctx: Context, name: str) -> str:
        world.ran(ctx)
        await world.clock.sleep_async(0.1)
        return name

    @world.app.task
    async def spawning(ctx: Context) -> None:
        world.ran(ctx)
        leaves = [node.using(key=f"leaf-{n}").prepare(f"leaf-{n}") for n in range(LEAVES)]
        spawned.update(dict.fromkeys(await _spawn(world, ctx, leaves)))

    @world.app.task
    async def broken(ctx: Context) -> None:
        world.ran(ctx)
        raise PermanentError("never")

    def job(task: Any, *arguments: str, key: str, after: Dependencies | None = None) -> NewJob:
        new: NewJob = task.using(key=key).prepare(*arguments)
        return replace(new, after=after, flow="f")

    diamond = [
        job(node, "top", key="top"),
        job(node, "left", key="left", after=Dependencies((0,))),
        job(spawning, key="right", after=Dependencies((0,))),
        job(node, "tip", key="tip", after=Dependencies((1, 2), gathers=True)),
    ]
    way = [
        job(broken, key="broken"),
        job(node, "never", key="never", after=Dependencies((0,))),
        job(node, "never 2", key="never 2", after=Dependencies((1,))),
        job(node, "always", key="always", after=Dependencies((0, 2), Mode.ENDED)),
        job(node, "any", key="any", after=Dependencies((2, 3), Mode.ANY)),
    ]
    first = await world.insist(lambda: world.app.aio.submit_many(diamond))
    second = await world.insist(lambda: world.app.aio.submit_many(way))
    await world.finish()
    world.require(len(spawned) == LEAVES, f"{len(spawned)} leaves were spawned")
    for handle in (*first, *second[3:]):
        world.expect(handle.id, State.COMPLETED)
    for leaf in spawned:
        world.expect(leaf, State.COMPLETED)
    world.expect(second[0].id, State.FAILED)
    for handle in second[1:3]:
        world.expect(handle.id, State.FAILED, runs=0)
    started = [run.job_id for run in world.runs]
    is_last = all(started.index(leaf) < started.index(first[3].id) for leaf in spawned)
    world.require(is_last, "the tip ran before what was spawned")


async def _spawn(world: World, ctx: Context, jobs: list[NewJob]) -> list[str]:
    """Spawn *jobs* under the lease of a handler, until a reply comes."""
    keyed = tuple(
        replace(job, key=Key(job.key.value, 600.0)) for job in jobs if job.key is not None
    )
    store = world.store
    asked = [Spawn(ctx.job_id, ctx.lease.token, keyed)]
    (reply,) = await world.insist(lambda: store.run_async(store.queue.spawn(asked)))
    world.require(isinstance(reply, Spawned), f"a spawn under a valid lease was told {reply}")
    return [each.job_id for each in reply.replies] if isinstance(reply, Spawned) else []

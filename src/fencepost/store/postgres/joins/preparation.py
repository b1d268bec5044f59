"""What is done before a caller's transaction and apart from it: inside, others would wait for it.

If the caller then rolls back, it has done no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from fencepost.core.job.job import NewJob
from fencepost.core.job.outcome import Settlement
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.plan import Declaration, Effect, Operation, Plan
from fencepost.store.postgres.flows import enqueue as graphs
from fencepost.store.postgres.jobs import settle as leases
from fencepost.store.postgres.jobs.catalog import Env, Numbers

NUMBER = Declaration("number", Effect.WRITE)
ISOLATE = Declaration("isolate", Effect.LEASE)


def preparations(
    env: Env, operation: Operation[Any], is_new: Callable[[], bool]
) -> Iterator[Operation[Any]]:
    """Yield what has to be run before *operation*; *is_new* is asked of the caller's connection."""
    if new := operation.new_jobs:
        yield Operation(NUMBER, partial(_number, env, new, afresh=is_new()))
    if operation.is_a(QueueFacet.settle):
        yield isolation(env, *operation.given)


def isolation(env: Env, settlements: Sequence[Settlement]) -> Operation[None]:
    """Return what gives each of these jobs a lease of its own, which the transaction may lock."""
    return Operation(ISOLATE, partial(leases.isolate, env, settlements))


def _number(env: Env, jobs: Sequence[NewJob], *, afresh: bool) -> Plan[Numbers]:
    """Number what is to be stored.

    A transaction that made a lane would keep all others waiting that need it, until the commit.
    """
    urgent = graphs.inherited(jobs)
    parents = yield from graphs.priorities(jobs)
    more = [replace(job, priority=each) for job in urgent for each in parents if job.after]
    wanted = graphs.with_delivery([*urgent, *more])
    now = env.clock.monotonic()
    return (yield from env.catalog.number(wanted, afresh=afresh, sure_at=now))

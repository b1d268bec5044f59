"""Operations in a caller's transaction: what runs before and around them, and their fate.

They are committed or rolled back with the rest of the transaction. So a lane that was made in it is
not remembered, notifications are sent by its commit, and no statement opens or ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg
from msgspec.structs import replace

from fencepost.core.job.job import NewJob
from fencepost.core.job.outcome import Settlement
from fencepost.errors import ConfigurationError
from fencepost.store.interface.joins import Fate, Joined
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Topic
from fencepost.store.notify import topics_of
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Statement
from fencepost.store.postgres.engine.notification import NOTIFY
from fencepost.store.postgres.flows.enqueue import inherited, priorities, with_delivery
from fencepost.store.postgres.jobs.catalog import Env, JobNumbers
from fencepost.store.postgres.jobs.lease import NOWHERE, isolate, read_token
from fencepost.store.sql.codec import encode_json

T = TypeVar("T")

NUMBER = Declaration("number", Effect.WRITE)
ISOLATE = Declaration("isolate", Effect.LEASE)

MARK = "select pg_current_xact_id()::text"
# The start time tells a server from any other, whatever address it is reached by; it needs no
# right.
IDENTITY = """
select extract(epoch from pg_postmaster_start_time())::text, oid::text, datname::text
from pg_database where datname = current_database()
"""
# One snapshot answers both questions, so that no commit can come between them.
FATES = """
select case
  when exists (
    select 1 from fencepost.done where done.seq = given.seq and done.lease_token = given.lease_token
  ) then 'settled'
  when exists (
    select 1 from unnest(given.marks) as mark
    where not pg_visible_in_snapshot(mark, pg_current_snapshot())
  ) then 'open'
  else 'undone' end
from json_to_recordset(%s) as given(n integer, seq bigint, lease_token uuid, marks xid8[])
order by given.n
"""


class Identity(NamedTuple):
    """Equal for two connections if and only if they lead to the same database."""

    started: str
    number: str
    database: str


class Place(NamedTuple):
    """Where a psycopg connection leads, as it knows without asking the server."""

    host: str
    port: int
    database: str


def place_of(connection: Any) -> Place | None:
    """Return where a caller's connection leads; None if its driver, asyncpg, does not say."""
    if not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return None
    info = connection.info
    return Place(info.host, info.port, info.dbname)


def identity() -> Plan[Identity]:
    ((started, number, database),) = yield Statement(IDENTITY, alone=True)
    return Identity(started, number, database)


IDENTIFY: Operation[Identity] = Operation(Declaration("identify", Effect.READ), identity)


def check_same(ours: Identity, theirs: Identity, place: Place | None, where: str) -> None:
    """Raise if a caller's connection does not lead to the store's database."""
    if ours != theirs:
        server = "" if place is None else f" on {place.host or 'localhost'}:{place.port}"
        raise ConfigurationError(
            f"conn leads to another database ({theirs.database!r}{server}) than this app's store "
            f"({where}); a job stored there would never run"
        )


def joined(operation: Operation[T]) -> Operation[T]:
    """Return *operation* with notifications, which the caller's commit sends."""
    return Operation(operation.declaration, partial(_notifying, operation))


def _notifying(operation: Operation[T]) -> Plan[T]:
    result = yield from operation.start()
    topics = topics_of(operation, result)
    if operation.is_a(QueueFacet.settle):
        topics.add(Topic.READY)  # the next claim resolves the notes on dependents and slots
    for topic in sorted(topics):
        yield NOTIFY[topic]
    return result


def mark(env: Env) -> Plan[str]:
    """Return a name for the current transaction."""
    ((name,),) = yield Statement(MARK)
    return str(name)


def fates(env: Env, asked: Sequence[Joined]) -> Plan[list[Fate]]:
    """Return what became of settlements in callers' transactions; waits for no lock."""
    given = []
    for n, each in enumerate(asked):
        fence = read_token(each.token, each.job_id)
        lease_token = None if fence is NOWHERE else fence.lease_token
        marks = list(each.marks)
        given.append({"n": n, "seq": fence.seq, "lease_token": lease_token, "marks": marks})
    rows = yield Statement(FATES, (encode_json(given),), alone=True)
    return [Fate(text) for (text,) in rows]


def preparations(
    env: Env, operation: Operation[Any], is_new: Callable[[], bool]
) -> Iterator[Operation[Any]]:
    """Yield what runs before the caller's transaction, where others would have to wait for its end.

    If the caller rolls back, this has done no harm. *is_new* returns whether the caller's
    connection is new.
    """
    if new := operation.new_jobs:
        yield Operation(NUMBER, partial(_number, env, new, afresh=is_new()))
    if operation.is_a(QueueFacet.settle):
        yield isolation(env, *operation.given)


def isolation(env: Env, settlements: Sequence[Settlement]) -> Operation[None]:
    """Return what gives each of these jobs its own lease, which the transaction may lock."""
    return Operation(ISOLATE, partial(isolate, env, settlements))


def _number(env: Env, jobs: Sequence[NewJob], *, afresh: bool) -> Plan[JobNumbers]:
    """Number what is to be stored: others would wait for a lane made in an open transaction."""
    urgent = inherited(jobs)
    parents = yield from priorities(jobs)
    more = [replace(job, priority=each) for job in urgent for each in parents if job.after]
    wanted = with_delivery([*urgent, *more])
    now = env.clock.monotonic()
    return (yield from env.catalog.number(wanted, afresh=afresh, sure_at=now))

"""Operations inside a caller's own transaction: what is put around them, and asked about it later.

Whatever is written there is there or not with the rest of the transaction. So a lane that was made
in it is not remembered, news travel with its commit, and no statement opens or ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg

from fencepost.errors import ConfigurationError
from fencepost.store.interface.joins import Fate, Joined
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.notify import topics_of
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Statement
from fencepost.store.postgres.engine.notifier import NOTIFY
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.tokens import NOWHERE, read_token
from fencepost.store.sql.texts import encode_json

T = TypeVar("T")

MARK = "select pg_current_xact_id()::text"
# When the server was started tells it from any other, whatever the way to it; no right is needed.
IDENTITY = """
select extract(epoch from pg_postmaster_start_time())::text, oid::text
from pg_database where datname = current_database()
"""
# One snapshot answers both questions, so that no commit can come between them.
FATES = """
select case
  when exists (
    select 1 from fencepost.done where done.seq = given.seq and done.secret = given.secret
  ) then 'settled'
  when exists (
    select 1 from unnest(given.marks) as mark
    where not pg_visible_in_snapshot(mark, pg_current_snapshot())
  ) then 'open'
  else 'undone' end
from json_to_recordset(%s) as given(n integer, seq bigint, secret uuid, marks xid8[])
order by given.n
"""


class Identity(NamedTuple):
    """What is the same for two connections if, and only if, they lead to the same database."""

    started: str
    database: str


class Place(NamedTuple):
    """Where a connection leads, as far as the driver knows without asking."""

    host: str
    port: int
    database: str


def place_of(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Place:
    """Return where *connection* leads."""
    info = connection.info
    return Place(info.host, info.port, info.dbname)


def identity() -> Plan[Identity]:
    """Return which database this is."""
    ((started, database),) = yield Statement(IDENTITY, alone=True)
    return Identity(started, database)


IDENTIFY: Operation[Identity] = Operation(Declaration("identify", Effect.READ), identity)


def check_same(ours: Identity, theirs: Identity, place: Place, where: str) -> None:
    """Raise if a caller's connection does not lead to the store's database."""
    if ours != theirs:
        raise ConfigurationError(
            f"conn leads to another database ({place.database!r} on {place.host or 'localhost'}:"
            f"{place.port}) than this app's store ({where}); a job stored there would never be run"
        )


def joined(operation: Operation[T]) -> Operation[T]:
    """Return *operation* as it is run in a caller's transaction: its commit tells the news."""
    return Operation(operation.declaration, partial(_telling, operation))


def _telling(operation: Operation[T]) -> Plan[T]:
    result = yield from operation.start()
    topics = topics_of(operation, result)
    if operation.is_a(QueueFacet.settle):
        topics.add(Topic.READY)  # the next claim sees who waited for the job, or for its slot
    for topic in sorted(topics):
        yield NOTIFY[topic]
    return result


def mark(env: Env) -> Plan[str]:
    """Return a name for the transaction in which this runs."""
    ((name,),) = yield Statement(MARK)
    return str(name)


def fates(env: Env, asked: Sequence[Joined]) -> Plan[list[Fate]]:
    """Tell what became of settlements in callers' transactions; waits for nobody."""
    given = []
    for n, each in enumerate(asked):
        fence = read_token(each.token, each.job_id)
        secret = None if fence is NOWHERE else fence.secret
        given.append({"n": n, "seq": fence.seq, "secret": secret, "marks": list(each.marks)})
    rows = yield Statement(FATES, (encode_json(given),), alone=True)
    return [Fate(text) for (text,) in rows]

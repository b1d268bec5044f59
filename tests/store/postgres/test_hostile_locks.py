"""Whoever holds all the advisory locks that a database gives holds up nobody (decision 0045).

PostgreSQL-specific: any role of a database can take these, and keep them for as long as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from tests.store.postgres.patience import patiently

from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import AttemptOutcome, NewJob
from fencepost.core.job.lifecycle import TERMINAL, Event, State
from fencepost.core.job.outcome import Decision, Settlement
from fencepost.core.job.policy import Priority
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.store.interface.control import Edit
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("quiet", "migrated")

OURS = (1178947155, 1178947156, 1178947157, 1178947158)
"""The classes that have ever been used."""
HOLD = """
select pg_catalog.pg_advisory_lock(class, number)
from unnest(%s::integer[]) as class, (
  select generate_series(0, 20) as number
  union select hashtext(name) from unnest(%s::text[]) as name
) as numbers
"""
HOLD_PLAIN = """
select pg_catalog.pg_advisory_lock(class::bigint << 32 | number)
from unnest(%s::integer[]) as class, generate_series(0, 20) as number
"""
SUCCESS = Decision(Event.SUCCEED, State.COMPLETED, AttemptOutcome.SUCCEEDED)


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hostile(admin: psycopg.Connection, postgres_url: str) -> Iterator[psycopg.Connection]:
    """A session of a role that has no right but to connect."""
    role = sql.Identifier(f"hostile_{admin.info.dbname}"[:60])
    admin.execute(sql.SQL("drop role if exists {}").format(role))
    admin.execute(sql.SQL("create role {} nologin").format(role))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("set role {}").format(role))
        yield connection
    admin.execute(sql.SQL("drop role {}").format(role))


def test_claims_submissions_settlements_and_chores_go_on(
    store: PostgresStore,
    clock: FakeClock,
    admin: psycopg.Connection,
    hostile: psycopg.Connection,
    postgres_url: str,
) -> None:
    names = ["default", "mail", "report", "", "app", "queue"]
    hostile.execute(HOLD, (list(OURS), names))
    hostile.execute(HOLD_PLAIN, (list(OURS),))
    run = store.run
    run(store.settings.limit(Scope.QUEUE, "default", 10))
    run(store.settings.limit(Scope.APP, "", 10))
    run(
        store.settings.limit_types(
            {"mail": TypeLimits(rate=Rate(100, 60.0)), "report": TypeLimits(rate=Rate(100, 60.0))}
        )
    )
    jobs = [
        NewJob(type="mail", key=Key("k", None)),
        NewJob(type="mail"),
        NewJob(type="report", delay=1.0),
        NewJob(type="report", delay=3600.0),
        NewJob(type="mail", delay=3600.0),
    ]
    replies = run(store.queue.enqueue(jobs))
    run(store.upkeep.tidy())
    clock.advance(1.0)
    claimed = run(store.queue.claim(ClaimRequest(worker="w", limit=10))).jobs
    assert {job.id for job in claimed} == {reply.job_id for reply in replies[:3]}
    run(store.queue.settle([Settlement(job.id, job.lease.token, SUCCESS) for job in claimed]))
    run(store.control.edit([Edit(replies[3].job_id, priority=Priority.HIGH, run_at=clock.now())]))
    run(store.upkeep.promote(10))
    run(store.upkeep.recover(10))
    run(store.upkeep.expire(10))
    run(store.settings.limit_types({"mail": TypeLimits()}))
    before = _marks(admin)
    submitted = 0
    for _ in patiently(postgres_url):
        clock.advance(1.0)
        submitted += len(run(store.queue.enqueue([NewJob(type="mail")])))
        run(store.upkeep.tidy())
        if _marks(admin) > before:
            break
    run(store.upkeep.prune(PruneRequest(keep=dict.fromkeys(TERMINAL, 0.0), limit=10)))
    found = run(store.queue.claim(ClaimRequest(worker="w", limit=20))).jobs
    assert len(found) == min(submitted + 1, 10)


def _marks(admin: psycopg.Connection) -> int:
    row = admin.execute("select coalesce(max(number), 0) from fencepost.marks").fetchone()
    assert row is not None
    return int(row[0])


def test_a_latch_is_for_those_who_may_write(
    store: PostgresStore, admin: psycopg.Connection, hostile: psycopg.Connection, postgres_url: str
) -> None:
    modes = ("access share", "row share", "row exclusive", "share", "access exclusive")
    role = sql.Identifier(str(hostile.execute("select current_user").fetchone()[0]))  # type: ignore[index]
    latches = ("marks_latch", "tidy_latch", "limits", "type_limits")
    for latch in latches:
        for mode in modes:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), hostile.transaction():
                hostile.execute(f"lock table fencepost.{latch} in {mode} mode nowait".encode())
    # One who may read can hold a lock, which is in nobody's way.
    admin.execute(sql.SQL("grant usage on schema fencepost to {}").format(role))
    admin.execute(sql.SQL("grant select on all tables in schema fencepost to {}").format(role))
    store.run(store.settings.limit(Scope.APP, "", 10))
    with hostile.transaction():
        for latch in latches:
            hostile.execute(f"lock table fencepost.{latch} in access share mode".encode())
        before = _marks(admin)
        submitted = 0
        for _ in patiently(postgres_url):
            submitted += len(store.run(store.queue.enqueue([NewJob(type="mail")])))
            store.run(store.upkeep.tidy())
            if _marks(admin) > before:
                break
        found = store.run(store.queue.claim(ClaimRequest(worker="w", limit=20))).jobs
        assert len(found) == min(submitted, 10)
    admin.execute(sql.SQL("drop owned by {}").format(role))


def test_no_advisory_lock_is_taken_but_to_migrate() -> None:
    folder = Path(str(files("fencepost.store.postgres")))
    found = {
        path.name
        for path in folder.rglob("*.*")
        if path.suffix in (".py", ".sql")
        and re.search(r"pg_(try_)?advisory_\w*lock", path.read_text("utf-8"))
    }
    assert found == {"functions.py"}

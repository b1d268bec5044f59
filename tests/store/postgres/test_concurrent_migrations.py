"""Migrations that no transaction can hold: indexes that are created while others write.

PostgreSQL-specific: SQLite has one writer at a time, and memory no schema.
"""

from __future__ import annotations

import shutil
import subprocess
import threading

import psycopg
import pytest
from tests.store.postgres.conftest import Admin

from fencepost.core.job.job import NewJob
from fencepost.errors import SchemaError
from fencepost.store.postgres.engine import schema
from fencepost.store.postgres.store import PostgresStore

CONCURRENT = """-- oldest: 1
-- concurrently
-- Both are needed by nobody.
create index concurrently later_worker on fencepost.done(worker)
where worker is not null;
create unique index concurrently later_once on fencepost.submissions(correlation_id);
"""
VALIDITY = """
select c.relname::text, i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid
where c.relname like 'later%' order by 1
"""
BOTH = [("later_once", True), ("later_worker", True)]


@pytest.fixture
def name(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a second migration, on a database that has the first."""
    schema.apply(admin)
    known = schema.migrations()
    number = known[-1][0] + 1
    added = [*known, (number, f"{number:04}_later", CONCURRENT)]
    monkeypatch.setattr(schema, "migrations", lambda: added)
    return added[-1][1]


def test_indexes_are_created_outside_of_a_transaction(admin: Admin, name: str) -> None:
    assert schema.apply(admin) == [name]
    assert admin.execute(VALIDITY).fetchall() == BOTH
    assert schema.apply(admin) == []
    schema.check(admin)
    assert admin.execute("show statement_timeout").fetchone() == ("0",)


def test_what_a_failure_has_left_is_replaced(admin: Admin, name: str) -> None:
    """An index that could not be completed stays, is never used, and costs every write."""
    twin = (
        "insert into fencepost.submissions(seq, id, created_at, run_at, expires_at, lane, policy, "
    )
    twin += "max_attempts, correlation_id) select n, gen_random_uuid(), now(), now(), now(), 1, 1,"
    twin += " 1, 'twin' from generate_series(1, 2) as n"
    admin.execute(twin.encode())
    with pytest.raises(psycopg.errors.UniqueViolation):
        schema.apply(admin)
    assert admin.execute(VALIDITY).fetchall() == [("later_once", False), ("later_worker", True)]
    with pytest.raises(SchemaError, match="run `fencepost migrate`"):
        schema.check(admin)
    locks = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    assert admin.execute(locks).fetchone() == (0,)
    admin.execute("delete from fencepost.submissions where seq = 2")
    assert schema.apply(admin) == [name]
    assert admin.execute(VALIDITY).fetchall() == BOTH


def test_what_was_created_but_not_recorded_is_taken_as_it_is(admin: Admin, name: str) -> None:
    """The process died between the two."""
    admin.execute("create index later_worker on fencepost.done(worker)")
    node = "select c.relfilenode from pg_class c where relname = 'later_worker'"
    before = admin.execute(node).fetchone()
    assert schema.apply(admin) == [name]
    assert admin.execute(node).fetchone() == before


def test_two_that_migrate_at_once_take_turns(admin: Admin, postgres_url: str, name: str) -> None:
    """Neither waits with a snapshot for which the other's index would wait in turn."""
    results: list[list[str]] = []

    def migrate() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            results.append(schema.apply(connection))

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[], [], [], [name]]
    assert admin.execute(VALIDITY).fetchall() == BOTH


def test_nobody_who_writes_waits_for_it(admin: Admin, postgres_url: str, name: str) -> None:
    """It waits for a transaction that is open, and others go on meanwhile."""
    store = PostgresStore(postgres_url)
    migrating = threading.Thread(target=lambda: store.migrate())
    with psycopg.connect(postgres_url) as open_ended, psycopg.connect(postgres_url) as other:
        open_ended.execute("update fencepost.done set worker = null")
        migrating.start()
        waiting = """
            select count(*) from pg_stat_progress_create_index
            where phase like 'waiting%' and datname = current_database()
        """
        for _ in range(3_000):
            if admin.execute(waiting).fetchone() == (1,):
                break
            admin.execute("select pg_sleep(0.01)")
        other.execute("update fencepost.done set worker = null")
        other.commit()
        assert migrating.is_alive()
        open_ended.commit()
    migrating.join()
    assert store.run(store.queue.enqueue([NewJob(type="mail")]))
    store.close()
    assert admin.execute(VALIDITY).fetchall() == BOTH


def test_a_pooler_is_refused(admin: Admin, postgres_url: str, name: str) -> None:
    """It would give every statement another session, and the lock to whoever comes next."""
    store = PostgresStore(postgres_url)
    with store._connections.lend() as session:
        session.is_pooled = True
        with pytest.raises(SchemaError, match="through a pooler"):
            schema.apply(session)
    store.close()


def test_the_printed_script_does_the_same(admin: Admin, postgres_url: str, name: str) -> None:
    [(_, script)] = schema.pending(admin)
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("psql is not installed here")
    for _ in range(2):  # the second time changes nothing
        subprocess.run([psql, postgres_url, "-q"], input=script, text=True, check=False)
    assert admin.execute(VALIDITY).fetchall() == BOTH
    schema.check(admin)

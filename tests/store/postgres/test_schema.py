"""The schema of PostgreSQL: migrated by whoever owns it, checked by everybody else.

Store-specific, because only here a store is shared by several versions and several roles.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from tests.servers.places import sources
from tests.servers.postgres import Postgres, PostgresServer
from tests.store.postgres.using import use

from fencepost.cli.main import cli
from fencepost.core.access.audit import make_action
from fencepost.core.access.bounds import AUDIT_KEPT_MIN
from fencepost.core.access.tokens import Principal, Role, TokenOptions, make_token
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import NewJob
from fencepost.errors import FencepostError, SchemaError, StoreUnavailableError
from fencepost.store.plan import Operation
from fencepost.store.postgres.engine import functions, schema
from fencepost.store.postgres.engine.functions import LOCK
from fencepost.store.postgres.store import PostgresStore

Admin = psycopg.Connection[tuple[Any, ...]]
AddMigration = Callable[..., None]

MORE = "create table fencepost.more(n integer);\n"
ROLES = ("fencepost_owner", "fencepost_runtime", "fencepost_server", "fencepost_readonly")


@pytest.fixture
def admin(postgres_url: str) -> Iterator[Admin]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def newest() -> int:
    return schema.migrations()[-1][0]


@pytest.fixture
def with_more(monkeypatch: pytest.MonkeyPatch) -> AddMigration:
    """Return a function that adds a migration to those that there are."""
    known = schema.migrations()

    def add(text: str = MORE) -> None:
        number = known[-1][0] + 1
        added = [*known, (number, f"{number:04}_more", text)]
        monkeypatch.setattr(schema, "migrations", lambda: added)

    return add


def tables(connection: Admin) -> set[str]:
    rows = connection.execute("select tablename from pg_tables where schemaname = 'fencepost'")
    return {row[0] for row in rows}


def test_an_empty_database_is_migrated_once(admin: Admin) -> None:
    names = [name for _, name, _ in schema.migrations()]
    all_functions = functions.title(list(functions.function_set().files))
    assert [name for name, _ in schema.pending(admin)] == [*names, all_functions]
    assert schema.apply(admin) == [*names, all_functions]
    assert schema.apply(admin) == []
    assert schema.pending(admin) == []
    schema.check(admin)
    rows = admin.execute(
        "select name, applied_at <= now() from fencepost.schema_version"
    ).fetchall()
    assert rows == [(name, True) for name in names]


async def test_opening_a_store_migrates_nothing_and_says_what_to_run(
    postgres_url: str, admin: Admin
) -> None:
    store = PostgresStore(postgres_url)
    try:
        with pytest.raises(SchemaError, match=r"no schema.*run `fencepost migrate`"):
            store.run(store.queue.enqueue([NewJob(type="mail")]))
        with pytest.raises(SchemaError, match="run `fencepost migrate`"):
            await store.run_async(store.queue.enqueue([NewJob(type="mail")]))
        assert tables(admin) == set()
        store.migrate()
        assert store.run(store.reader.count(JobFilter())) == 0
    finally:
        store.close()


def test_an_older_schema_is_refused_until_it_is_migrated(
    admin: Admin, with_more: AddMigration, newest: int
) -> None:
    schema.apply(admin)
    with_more()
    with pytest.raises(SchemaError, match=f"schema version {newest}, this Fencepost needs"):
        schema.check(admin)
    assert schema.apply(admin) == [f"{newest + 1:04}_more"]
    schema.check(admin)


def test_a_newer_schema_is_refused(admin: Admin) -> None:
    schema.apply(admin)
    admin.execute("insert into fencepost.schema_version(version, name) values (9999, 'later')")
    for look in (schema.check, schema.pending, schema.apply):
        with pytest.raises(SchemaError, match=r"schema version 9999.*upgrade Fencepost"):
            look(admin)


def test_a_migration_that_fails_leaves_nothing_of_itself(
    admin: Admin, with_more: AddMigration, newest: int
) -> None:
    with_more("create table fencepost.half(n integer); select 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        schema.apply(admin)
    assert "half" not in tables(admin)
    assert schema.current_version(admin) == newest
    # Of this database: other tests have others on the same server.
    locks = admin.execute(
        "select count(*) from pg_locks where locktype = 'advisory' and database = "
        "(select oid from pg_database where datname = current_database())"
    ).fetchone()
    assert locks == (0,)
    with_more()
    schema.apply(admin)
    schema.check(admin)


def test_two_that_migrate_at_once_take_turns(admin: Admin, postgres_url: str) -> None:
    results: list[list[str]] = []

    def migrate() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            results.append(schema.apply(connection))

    everything = [name for name, _ in schema.pending(admin)]
    threads = [threading.Thread(target=migrate) for _ in range(2)]
    with psycopg.connect(postgres_url, autocommit=True) as third, third.transaction():
        third.execute(LOCK)
        for thread in threads:
            thread.start()
        _wait_for_pauses(admin, 2)
    for thread in threads:
        thread.join()
    # Each step once, by one or the other.
    assert sorted(results[0] + results[1]) == sorted(everything)


def _wait_for_pauses(admin: Admin, count: int) -> None:
    """Wait until so many wait for their turn, without a lock or a snapshot that lasts."""
    waiting = """
        select count(*) from pg_stat_activity
        where wait_event = 'PgSleep' and datname = current_database()
    """
    deadline = time.monotonic() + 30
    while admin.execute(waiting).fetchone() != (count,):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_printed_script_does_what_migrating_does(
    admin: Admin, postgres_url: str, with_more: AddMigration, newest: int
) -> None:
    with_more()
    result = CliRunner().invoke(cli, ["--url", postgres_url, "migrate", "--sql"])
    assert result.exit_code == 0, result.output
    admin.execute(result.stdout.encode())
    schema.check(admin)
    assert "more" in tables(admin)


def test_a_script_out_of_turn_changes_nothing(
    admin: Admin, with_more: AddMigration, newest: int
) -> None:
    with_more()
    scripts = [script for _, script in schema.pending(admin)]
    *_, more, all_functions = scripts
    for script, needed in ((more, newest), (all_functions, newest + 1)):
        with pytest.raises(psycopg.errors.RaiseException, match=f"version {needed} is needed"):
            admin.execute(script.encode())
        admin.execute("rollback")
        assert tables(admin) == set()
    for script in scripts:
        admin.execute(script.encode())
    before = tables(admin)
    with pytest.raises(psycopg.errors.RaiseException, match="is needed"):
        admin.execute(scripts[0].encode())
    admin.execute("rollback")
    assert tables(admin) == before


def test_a_database_that_is_not_utf8_is_refused(postgres_server: Postgres) -> None:
    name = "fencepost_latin"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        postgres_server.drop_database(name)
        connection.execute(
            f"create database {name} encoding 'LATIN1' template template0 "
            "lc_collate 'C' lc_ctype 'C'".encode()
        )
    try:
        with psycopg.connect(postgres_server.url(name), autocommit=True) as latin:
            for look in (schema.check, schema.pending, schema.apply):
                with pytest.raises(StoreUnavailableError, match=r"encoding LATIN1.*'UTF8'"):
                    look(latin)
    finally:
        postgres_server.drop_database(name)


def test_roles_are_printed_for_postgresql_only() -> None:
    printed = CliRunner().invoke(cli, ["--url", "postgresql://host/jobs", "migrate", "--roles"])
    assert (printed.exit_code, printed.stdout) == (0, schema.roles())
    refused = CliRunner().invoke(cli, ["--url", "memory://", "migrate", "--roles"])
    assert refused.exit_code == 2


@pytest.mark.parametrize("source", sources())
def test_four_roles_can_do_what_they_should_and_no_more(source: str) -> None:
    """The script may come before the first migration or after it, and may be run again.

    On a server of its own: roles belong to all of it, and whoever migrates grants to those there.
    """
    with PostgresServer(source) as server:
        for is_migrated in (False, True):
            url = server.create_database(f"jobs_{is_migrated}".lower())
            with psycopg.connect(url, autocommit=True) as admin:
                if is_migrated:
                    schema.apply(admin)
                for _ in range(2):
                    admin.execute(schema.roles().encode())
                _owner_migrates(url, is_migrated=is_migrated)
                _runtime_does_all_but_ddl(url)
                _only_the_server_sees_tokens(url)
                _only_the_server_adds_to_the_audit_log(url)
                _readonly_only_looks(url)
                _drop_roles(admin)


def _drop_roles(admin: Admin) -> None:
    admin.execute("drop schema fencepost cascade")
    rows = admin.execute("select rolname from pg_roles where rolname = any (%s)", (list(ROLES),))
    found = {row[0] for row in rows}
    assert found == set(ROLES)
    for role in found:
        name = sql.Identifier(role)
        admin.execute(sql.SQL("drop owned by {}").format(name))
        admin.execute(sql.SQL("drop role {}").format(name))


def _as(url: str, role: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options={quote(f'-c role={role}')}"


def _owner_migrates(url: str, *, is_migrated: bool) -> None:
    with psycopg.connect(_as(url, "fencepost_runtime"), autocommit=True) as connection:
        if not is_migrated:
            with pytest.raises(SchemaError, match="as the role that owns the schema"):
                schema.apply(connection)
    with psycopg.connect(_as(url, "fencepost_owner"), autocommit=True) as connection:
        assert bool(schema.apply(connection)) is not is_migrated
        connection.execute("create table fencepost.extra(n integer)")
        connection.execute("drop table fencepost.extra")


def _runtime_does_all_but_ddl(url: str) -> None:
    store = PostgresStore(_as(url, "fencepost_runtime"))
    try:
        use(store)
    finally:
        store.close()
    with psycopg.connect(_as(url, "fencepost_runtime"), autocommit=True) as connection:
        schema.check(connection)
        for ddl in (
            "create table fencepost.mine(n integer)",
            "drop table fencepost.submissions",
            "alter table fencepost.submissions add n integer",
            "drop function fencepost.tidy",
            "truncate fencepost.submissions",
            "create schema mine",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(ddl.encode())


def _only_the_server_sees_tokens(url: str) -> None:
    """Whoever could write one would let themselves in."""
    options = TokenOptions(name="ci", roles=(Role.SUBMIT,))
    record = make_token(options, bytes(30), datetime.now(UTC)).record
    for role, is_allowed in (
        ("fencepost_server", True),
        ("fencepost_runtime", False),
        ("fencepost_readonly", False),
    ):
        store = PostgresStore(_as(url, role))
        try:
            asked: list[Operation[Any]] = [
                store.access.add(record),
                store.access.tokens(),
                store.access.revoke(record.id),
            ]
            for operation in asked:
                if is_allowed:
                    store.run(operation)
                else:
                    with pytest.raises(FencepostError, match="permission denied"):
                        store.run(operation)
        finally:
            store.close()


def _only_the_server_adds_to_the_audit_log(url: str) -> None:
    """Nobody changes it, and whoever prunes it, or lies about the time, leaves the last week."""
    with psycopg.connect(url, autocommit=True) as connection:
        for age in (AUDIT_KEPT_MIN + 600, AUDIT_KEPT_MIN - 600, 0):
            connection.execute(
                "insert into fencepost.actions(id, at, principal, action, target, detail) values "
                "(%s, now() - %s * interval '1 second', 'alice', 'job.cancel', 'j', '{}')",
                (uuid4(), age),
            )
    for role in ("fencepost_readonly", "fencepost_runtime", "fencepost_server"):
        store = PostgresStore(_as(url, role))
        action = make_action(Principal.local(), "token.create", id=str(uuid4()))
        try:
            before = len(store.run(store.audit.list(PageRequest(10))).actions)
            if role == "fencepost_server":
                store.run(store.audit.record(action))
                before += 1
            else:
                with pytest.raises(FencepostError, match="permission denied"):
                    store.run(store.audit.record(action))
            if role == "fencepost_readonly":
                with pytest.raises(FencepostError, match="permission denied"):
                    store.run(store.audit.prune(0.0, 10))
            else:
                # The old one, once, though all were asked for.
                pruned = store.run(store.audit.prune(0.0, 10))
                assert pruned == (role == "fencepost_runtime")
                before -= pruned
            assert len(store.run(store.audit.list(PageRequest(10))).actions) == before
        finally:
            store.close()
        with psycopg.connect(_as(url, role), autocommit=True) as connection:
            for change in (
                "update fencepost.actions set principal = 'nobody'",
                "delete from fencepost.actions",
                "truncate fencepost.actions",
                "drop function fencepost.prune_actions",
                "create or replace function fencepost.prune_actions(timestamptz, bigint, integer) "
                "returns integer language sql as 'select 1'",
                "select 1 from fencepost.actions for update",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(change.encode())
            if role == "fencepost_readonly":
                continue
            for later in ("now() + interval '1 year'", "'infinity'"):
                prune = f"select fencepost.prune_actions({later}, -1000000, 1000)"
                assert connection.execute(prune.encode()).fetchone() == (0,)


def _readonly_only_looks(url: str) -> None:
    store = PostgresStore(_as(url, "fencepost_readonly"))
    try:
        found = store.run(store.reader.find(JobFilter(), PageRequest(10))).jobs
        assert found
        assert store.run(store.overview.queues())
        assert store.run(store.events.list(None, PageRequest(10))).events
        assert store.run(store.overview.inspect())
        with pytest.raises(FencepostError, match="permission denied"):
            store.run(store.queue.enqueue([NewJob(type="mail")]))
        with pytest.raises(FencepostError, match="permission denied"):
            store.run(store.control.cancel([found[0].id]))
    finally:
        store.close()
    with psycopg.connect(_as(url, "fencepost_readonly"), autocommit=True) as connection:
        assert connection.execute("select count(*) from fencepost.jobs").fetchone() == (len(found),)
        for change in (
            "delete from fencepost.submissions",
            "delete from fencepost.events",
            "update fencepost.lane_marks set low = now()",
            "insert into fencepost.pauses values ('type', 'mail')",
            "select nextval('fencepost.seq')",
            "create table fencepost.mine(n integer)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change.encode())

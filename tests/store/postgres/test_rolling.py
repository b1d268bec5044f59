"""Migrating while programs of the version before run: they go on, and nothing is lost.

PostgreSQL-specific: only here a store is shared by several versions.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.store.postgres.witness import Ledger, Producer, check_nothing_lost, make_app
from tests.worker.support import eventually_sync, working_in_thread

from fencepost.errors import SchemaError, StoreUnavailableError
from fencepost.store.postgres.engine import functions, schema

# As later versions will: each changes one table, in a way that older programs need not know of.
LATER = [
    "alter table fencepost.submissions add column later text;\n",
    "alter table fencepost.done add column later text;\n",
    "alter table fencepost.ready add column later text;\n",
    "create index on fencepost.leases (worker);\n",
    "-- concurrently\ncreate index concurrently later on fencepost.done (worker);\n",
]


def test_programs_of_the_version_before_go_on_while_the_schema_is_migrated(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schema.migrations()
    numbers = range(known[-1][0] + 1, known[-1][0] + 1 + len(LATER))
    later = [
        (number, f"{number:04}_later", text) for number, text in zip(numbers, LATER, strict=True)
    ]
    ledger = Ledger(tmp_path / "ledger")
    with make_app(postgres_url) as callers, make_app(postgres_url) as app:
        callers.migrate()
        task = ledger.task(callers)
        ledger.task(app, seconds=0.01)
        sync, awaited = Producer(callers, task), Producer(callers, task, is_async=True)
        with working_in_thread(app, concurrency=4):
            with sync, awaited:
                eventually_sync(lambda: len(ledger.runs()) > 20, "jobs that run")
                for count in range(1, len(later) + 1):
                    migrated = [*known, *later[:count]]
                    with monkeypatch.context() as newer, make_app(postgres_url) as owner:
                        newer.setattr(schema, "migrations", lambda migrated=migrated: migrated)
                        assert owner.migrate() == [migrated[-1][1]]
                        assert owner.jobs.count() > 0
                    sync.wait_for_more()
                    awaited.wait_for_more()
            check_nothing_lost(callers, ledger, sync.acknowledged + awaited.acknowledged)
        assert sync.errors + awaited.errors == []
        assert app.session.counters.get("store.unavailable", during="claim") == 0
        assert app.session.counters.get("store.unavailable", during="settle") == 0
    with make_app(postgres_url) as late, pytest.raises(SchemaError, match="upgrade Fencepost"):
        late.jobs.count()


def test_a_process_of_the_version_before_starts_on_a_newer_schema_that_allows_it(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy is rolled out over minutes, in which a process of the old version may restart."""
    known = schema.migrations()
    newest = known[-1][0]
    allowing = (newest + 1, "allowing", f"-- oldest: {newest}\n{LATER[0]}")
    later = [*known, allowing, (newest + 2, "breaking", f"-- oldest: {newest + 1}\n{LATER[1]}")]
    ledger = Ledger(tmp_path / "ledger")

    def migrate(migrations: list[schema.Migration]) -> list[str]:
        with monkeypatch.context() as newer, make_app(postgres_url) as owner:
            newer.setattr(schema, "migrations", lambda: migrations)
            return owner.migrate()

    migrate([*known, allowing])
    with make_app(postgres_url) as restarted:
        job = ledger.task(restarted).submit(1)
        assert restarted.migrate() == []
        assert restarted.session.store.pending_migrations() == []
        with working_in_thread(restarted):
            check_nothing_lost(restarted, ledger, [job.id])
    assert migrate(later) == ["breaking"]
    with make_app(postgres_url) as late, pytest.raises(SchemaError, match="upgrade Fencepost"):
        late.jobs.count()
    with monkeypatch.context() as newer, make_app(postgres_url) as middle:
        newer.setattr(schema, "migrations", lambda: later[:-1])
        assert middle.jobs.count() == 1


def test_programs_of_the_version_before_go_on_with_newer_functions(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real second version: a new column, and a function that fills it for everybody."""
    known, ours = schema.migrations(), functions.function_set()
    newest = known[-1][0]
    later = (newest + 1, "later", f"-- oldest: {newest}\n{LATER[1]}")
    newer = functions.FunctionSet(ours.release + 1, tuple(_filling(each) for each in ours.files))
    ledger = Ledger(tmp_path / "ledger")
    with make_app(postgres_url) as callers, make_app(postgres_url) as app:
        callers.migrate()
        task = ledger.task(callers)
        ledger.task(app, seconds=0.01)
        with working_in_thread(app, concurrency=4), Producer(callers, task) as producer:
            eventually_sync(lambda: len(ledger.runs()) > 20, "jobs that run")
            with monkeypatch.context() as version, make_app(postgres_url) as owner:
                version.setattr(schema, "migrations", lambda: [*known, later])
                version.setattr(functions, "function_set", lambda: newer)
                assert owner.migrate() == ["later", "functions: settle"]
                assert owner.jobs.count() > 0
            eventually_sync(lambda: _filled(postgres_url) > 20, "jobs that the new one completed")
            with make_app(postgres_url) as restarted:
                assert restarted.migrate() == []  # its functions are older
                assert restarted.jobs.count() > 0
            filled = _filled(postgres_url)
            eventually_sync(lambda: _filled(postgres_url) > filled + 20, "more of them")
        assert producer.errors == []
        with working_in_thread(app, concurrency=4):
            check_nothing_lost(callers, ledger, producer.acknowledged)
        assert app.session.counters.get("store.unavailable", during="claim") == 0
        assert app.session.counters.get("store.unavailable", during="settle") == 0


def _filling(each: functions.FunctionFile) -> functions.FunctionFile:
    """Return the functions of a version that notes who completed a job in the new column."""
    if each.name != "settle":
        return each
    sql = each.sql.replace(" result)\n  select x.seq", " result, later)\n  select x.seq")
    sql = sql.replace("coalesce(x.result, 'null')\n", "coalesce(x.result, 'null'), 'yes'\n")
    assert sql.count("later") == sql.count("'yes'") == 1
    return each._replace(sql=sql)


def _filled(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select count(later) from fencepost.done").fetchone()
        assert row is not None
        return int(row[0])


def test_a_migration_gives_way_to_a_transaction_that_does_not_end(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever came after it would wait behind it."""
    known = schema.migrations()
    later = [*known, (known[-1][0] + 1, "later", LATER[0])]
    with make_app(postgres_url) as app, psycopg.connect(postgres_url) as open_ended:
        app.migrate()
        monkeypatch.setattr(schema, "migrations", lambda: later)
        monkeypatch.setattr(schema, "LOCK_TIMEOUT", "100ms")
        open_ended.execute("select count(*) from fencepost.submissions")
        with pytest.raises(StoreUnavailableError, match="another transaction holds a lock"):
            app.migrate()
        open_ended.rollback()
        assert app.migrate() == ["later"]

"""What `fencepost doctor` says of a PostgreSQL server; store-specific, as each server is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fencepost.clock import SystemClock
from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.overview import Finding
from fencepost.store.plan import Declaration, Effect, Operation
from fencepost.store.postgres.engine import functions
from fencepost.store.postgres.records import doctor as examination
from fencepost.store.postgres.store import PostgresStore

SAFE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
    "default_transaction_read_only": "off",
}


class FastClock(SystemClock):
    """Of a machine whose clock is ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=90)


def examined(store: PostgresStore, **options: bool) -> dict[str, list[Finding]]:
    env = store._env
    operation = Operation(
        Declaration("inspect", Effect.READ), lambda: examination.examine(env, **options)
    )
    findings: dict[str, list[Finding]] = {}
    for finding in store.run(operation):
        findings.setdefault(finding.code, []).append(finding)
    return findings


@pytest.mark.parametrize(
    ("settings", "level", "words"),
    [
        ({}, "ok", "survives a killed server and a power cut; a failover"),
        ({"synchronous_standby_names": "b"}, "ok", "and the loss of the primary"),
        (
            {"synchronous_standby_names": "b", "synchronous_commit": "local"},
            "ok",
            "a failover to a standby that lags",
        ),
        ({"synchronous_commit": "off"}, "warn", "may take back the last moments"),
        ({"full_page_writes": "off"}, "warn", "may damage the database"),
        ({"fsync": "off"}, "fail", "may destroy the whole database"),
        ({"fsync": "off", "synchronous_commit": "off"}, "fail", "set fsync = on"),
    ],
    ids=str,
)
def test_durability_is_called_what_it_is(settings: dict[str, str], level: str, words: str) -> None:
    finding = examination._durability({**SAFE, **settings})
    assert (finding.level, finding.code) == (level, "durability")
    assert words in finding.text


def test_an_old_server_and_one_that_cannot_write_are_failures() -> None:
    old = examination._server({"server_version": "12.1", "server_version_num": "120001"})
    assert (old.level, old.code) == ("fail", "server_version")
    (standby,) = examination._writable(SAFE, is_standby=True)
    read_only = {**SAFE, "default_transaction_read_only": "on"}
    (refusing,) = examination._writable(read_only, is_standby=False)
    assert {standby.level, refusing.level} == {"fail"}
    assert examination._writable(SAFE, is_standby=False) == []


def test_a_sound_server_has_nothing_to_be_warned_of(store: PostgresStore) -> None:
    findings = examined(store, is_pooled=False)
    codes = ("server_version", "schema", "clock", "pooler", "bloat", "orphaned_leases")
    assert [findings[code][0].level for code in codes] == ["ok"] * len(codes)
    assert "no_worker" not in findings
    assert examined(store, is_pooled=True)["pooler"][0].level == "note"


def test_who_may_create_where_names_are_looked_up_is_named(
    store: PostgresStore, admin: psycopg.Connection
) -> None:
    """Decision 0044: what they create there can be run by others unawares."""
    role = f"creator_{admin.info.dbname}"
    admin.execute("revoke create on schema public from public")
    assert [each.level for each in examined(store)["create_rights"]] == ["ok"]
    admin.execute(f'create role "{role}"'.encode())
    try:
        admin.execute(f'grant create on schema public to public, "{role}"'.encode())
        admin.execute(f'grant create on schema fencepost to "{role}"'.encode())
        ours, public = examined(store)["create_rights"]
        assert (ours.level, public.level) == ("warn", "warn")
        assert f'"{role}" may create in schema fencepost' in ours.text
        assert "every role may create in schema public" in public.text
        assert f'(revoke create on schema public from public, "{role}")' in public.text
    finally:
        admin.execute(f'drop owned by "{role}"'.encode())
        admin.execute(f'drop role "{role}"'.encode())


def test_who_holds_migrations_up_is_named(store: PostgresStore, admin: psycopg.Connection) -> None:
    """Decision 0045: any role can take an advisory lock, and these alone are waited for."""
    assert "migration_lock" not in examined(store)
    admin.execute(functions.TRY_SESSION_LOCK)
    [found] = examined(store)["migration_lock"]
    assert found.level == "warn"
    assert f"pg_terminate_backend({admin.info.backend_pid})" in found.text


def test_a_transaction_that_stays_open_is_named(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examined(store)["old_snapshot"][0].level == "ok"
    monkeypatch.setattr(examination, "OLD", timedelta(0))
    with psycopg.connect(postgres_url, application_name="report") as forgotten:
        forgotten.execute("select 1")
        pid = forgotten.info.backend_pid
        texts = [finding.text for finding in examined(store)["old_snapshot"]]
    assert any(f"session {pid} (report), idle in transaction" in text for text in texts)


def test_a_transaction_that_writes_to_another_database_is_named(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops the marks of this one: the server numbers the transactions of all databases."""
    monkeypatch.setattr(examination, "OLD", timedelta(0))
    monkeypatch.setattr(examination, "SHOWN_MAX", 1_000)
    elsewhere = make_conninfo(postgres_url, dbname="postgres", application_name="nightly")
    with psycopg.connect(elsewhere) as forgotten:
        pid = forgotten.info.backend_pid
        forgotten.execute("select 1")
        assert not any(f"session {pid} " in each.text for each in _writers(store))
        forgotten.execute("select pg_current_xact_id()")
        [named] = [each for each in _writers(store) if f"session {pid} " in each.text]
        forgotten.rollback()
    assert named.level == "warn"
    assert "(nightly), idle in transaction has been writing to database 'postgres'" in named.text


def _writers(store: PostgresStore) -> Sequence[Finding]:
    return examined(store).get("old_writer", [])


def test_dead_rows_are_counted_against_the_living(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "DEAD_ROWS_MAX", -1)
    assert {finding.level for finding in examined(store)["bloat"]} == {"ok"}
    (finding,) = examination._warnings("bloat", examination.BLOAT, [("ready", 10, 200_000)])
    assert (finding.level, finding.code) == ("warn", "bloat")
    assert "200,000 dead rows beside 10 live ones" in finding.text


def test_the_tables_whose_dead_rows_are_counted_exist(store: PostgresStore) -> None:
    """A name that was forgotten in a renaming would silence the finding for good."""
    [names] = re.findall(r"relname in \((.+?)\)", examination.DEAD_ROWS)
    sql = "select count(*) from pg_tables where schemaname = 'fencepost' and tablename in"
    with psycopg.connect(store.url) as connection:
        row = connection.execute(f"{sql} ({names})".encode()).fetchone()
    assert row == (names.count(",") + 1,)


def test_a_clock_that_is_off_is_told(postgres_url: str, store: PostgresStore) -> None:
    ahead = PostgresStore(postgres_url, clock=FastClock())
    try:
        (finding,) = examined(ahead)["clock"]
    finally:
        ahead.close()
    assert finding.level == "warn"
    assert "1m30s" in finding.text


def test_jobs_that_wait_for_nobody_are_told(store: PostgresStore) -> None:
    store.run(store.queue.enqueue([NewJob(type="mail"), NewJob(type="report")]))
    store.run(store.queue.enqueue([NewJob(type="report", queue="defualt")]))
    assert len(examined(store)["no_worker"]) == 3
    info = WorkerInfo(
        id="w",
        host="h",
        pid=1,
        queues={"default": 1},
        types=("report",),
        concurrency=1,
        started_at=store.clock.now(),
    )
    store.run(store.cluster.announce(info))
    type_, queue = examined(store)["no_worker"]
    assert type_.text.startswith(
        "1 job waits: no live worker serves type 'mail' on queue 'default'"
    )
    assert queue.text.endswith("this type is served on queue 'default'; did you mean 'default'?")


def test_jobs_whose_lanes_are_missing_are_told(store: PostgresStore, postgres_url: str) -> None:
    kinds = [NewJob(type=name) for name in ("mail", "report", "call")]
    store.run(store.queue.enqueue(kinds * 2))
    assert "missing_lanes" not in examined(store)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("delete from fencepost.lanes where type <> 'mail'")
    (finding,) = examined(store)["missing_lanes"]
    assert finding.level == "fail"
    assert "2 lanes that are missing" in finding.text


def test_leases_that_ran_out_are_counted(store: PostgresStore, postgres_url: str) -> None:
    store.run(store.queue.enqueue([NewJob(type="mail")] * 3))
    store.run(store.queue.claim(ClaimRequest(worker="w", limit=3)))
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("update fencepost.leases set expires_at = started_at")
    (finding,) = examined(store)["orphaned_leases"]
    assert finding.level == "warn"
    assert finding.text.startswith("3 leases have run out")


def test_news_are_heard_on_the_way_that_they_take(store: PostgresStore, postgres_url: str) -> None:
    with (
        psycopg.connect(postgres_url, autocommit=True) as listening,
        psycopg.connect(postgres_url, autocommit=True) as telling,
    ):
        assert examination.check_notify(listening, telling, channel="fencepost_a").level == "ok"
        with telling.transaction():  # told only at its end, and so in vain
            deaf = examination.check_notify(listening, telling, channel="fencepost_b", timeout=0.05)
        assert (deaf.level, deaf.code) == ("warn", "notify")

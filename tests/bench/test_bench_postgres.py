"""`make bench` on PostgreSQL reports what it should, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from bench.child import Mark, tenths
from bench.command import bench
from bench.figures import Figure, Target
from bench.postgres import NAMES, suite
from bench.postgres.bench import MARK, PostgresBench, ServerSizes
from bench.postgres.limits import Gauge, with_connections
from bench.postgres.meter import Meter
from bench.postgres.raw import RawTables
from bench.progress import StatusLine
from fencepost.cli.errors import Refusal
from fencepost.clock import SystemClock

TINY = ["--quick", "--jobs", "10", "--backlog", "20"]
SIZES = ServerSizes(
    jobs=60,
    backlog=120,
    singles=20,
    samples=5,
    stored=0,
    starts=0,
    rounds=1,
    backlogs=(120,),
    passing=200,
    steady=10,
    limited=30,
)

ROWS = {
    "submit",
    "submit-async",
    "submit-async.gain",
    "submit-many",
    "drain",
    "drain-2",
    "backlog.20",
    "wal",
    "cpu",
    "slots.20",
    "slots.100",
    "snapshot",
    "pickup.p50",
    "pickup.p99",
    "pickup.call.p50",
    "pickup.call.p99",
    "pickup-busy.p50",
    "pickup-busy.p99",
    "pickup-busy.call.p50",
    "pickup-busy.call.p99",
    "chains",
    "chains.whole",
    "fan",
    "fan.whole",
    "diamonds",
    "diamonds.whole",
    "chain",
    "limit",
    "limit.most",
    "rate",
    "keyed",
    "footprint.idle",
    "footprint.busy",
}
IF_LOCAL = {"cpu", "pickup.p50", "pickup.p99", "pickup-busy.p50", "pickup-busy.p99"}
"""Rows that need the server's processes and clock to be this machine's."""


def run(folder: Path, url: str, *arguments: str) -> Result:
    return CliRunner().invoke(bench, [*TINY, "--path", str(folder), "--store", url, *arguments])


def schemas(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select nspname from pg_namespace where nspname like 'fencepost%' order by nspname"
        )
        return [name for (name,) in rows]


@contextmanager
def ground(folder: Path, url: str) -> Iterator[PostgresBench]:
    with (
        StatusLine() as progress,
        PostgresBench(folder, url=url, sizes=SIZES, clock=SystemClock(), progress=progress) as made,
    ):
        yield made


# A run.


@pytest.mark.timeout(300)
def test_a_run_reports_every_figure_and_leaves_the_database_empty(
    tmp_path: Path, postgres_url: str
) -> None:
    done = run(tmp_path, postgres_url, "--json")
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failed"] == []
    machine = report["machine"]
    assert machine.keys() >= {"cores", "python", "postgres", "psycopg", "settings", "commit_ms"}
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert figures.keys() == (ROWS if machine["is_local"] else ROWS - IF_LOCAL)
    for name, figure in figures.items():
        assert figure["value"] > 0 or name == "cpu", name
        assert (figure["is_met"] is None) == (figure["target"] is None)
    assert figures["limit.most"]["is_met"], "a limit holds on any machine"
    assert schemas(postgres_url) == []
    assert list(tmp_path.iterdir()) == []


def test_only_what_was_named_is_measured_and_shown_as_a_table(
    tmp_path: Path, postgres_url: str
) -> None:
    done = run(tmp_path, postgres_url, "--only", "submit-many")
    assert done.exit_code == 0, done.output
    assert "submit 10 in bulk" in done.stdout
    assert "PostgreSQL" in done.stdout
    assert "drain" not in done.stdout


# The place.


def test_a_store_that_is_somebodys_is_refused_and_left_alone(
    tmp_path: Path, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create schema fencepost")
        connection.execute("create table fencepost.precious()")
    done = run(tmp_path, postgres_url)
    assert done.exit_code == 1
    assert "store_in_use" in done.output
    assert "createdb" in done.output
    with psycopg.connect(postgres_url) as connection:
        connection.execute("select from fencepost.precious")
    assert schemas(postgres_url) == ["fencepost"]


def test_what_a_killed_bench_left_behind_is_removed(tmp_path: Path, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        for name in ("fencepost", "fencepost_bench", "fencepost_bench_1000"):
            connection.execute(f"create schema {name}")
            connection.execute(f"comment on schema {name} is '{MARK}'")
    with ground(tmp_path, postgres_url):
        assert schemas(postgres_url) == ["fencepost_bench"]
    assert schemas(postgres_url) == []


def test_two_benches_do_not_share_a_database(tmp_path: Path, postgres_url: str) -> None:
    with ground(tmp_path, postgres_url):
        with pytest.raises(Refusal, match="another bench runs"), ground(tmp_path, postgres_url):
            pass
        assert schemas(postgres_url) == ["fencepost_bench"], "the first one's"


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "postgresql://nobody:secret@127.0.0.1:1/nothing")
    assert done.exit_code == 1
    assert "store_unavailable" in done.output
    assert "secret" not in done.output


def test_a_store_put_aside_comes_back_as_it_was(tmp_path: Path, postgres_url: str) -> None:
    with ground(tmp_path, postgres_url) as made:
        made.admin.execute("create schema fencepost")
        made.admin.execute("create table fencepost.first()")
        made.put_aside(7)
        made.admin.execute("create schema fencepost")
        made.admin.execute("drop schema fencepost")
        with made.brought_back(7):
            made.admin.execute("select from fencepost.first")
        made.forget(7)
        assert schemas(postgres_url) == ["fencepost_bench"]


# What goes together.


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--store", "sqlite:///jobs.db"], "takes postgresql://"),
        (["--store", "postgresql:///x", "--only", "drain-4"], "not measured on PostgreSQL"),
        (["--only", "snapshot"], "not measured on SQLite"),
        (["--store", "postgresql:///x", "--durability", "power"], "--durability is for SQLite"),
        (["--store", "postgresql:///x", "--repeat", "9"], "a backlog of 20 is not enough"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], complaint: str) -> None:
    done = CliRunner().invoke(bench, [*TINY, *arguments])
    assert done.exit_code == 2
    assert complaint in done.output


def test_the_names_are_each_measured_by_one_module() -> None:
    measured = [name for group in suite.GROUPS for name in group.names]
    assert measured == list(NAMES)
    assert {name.partition(".")[0] for name in ROWS} == set(NAMES)


# The raw side, and what is measured with.


def test_the_raw_limit_loses_nothing_and_keeps_the_results(
    tmp_path: Path, postgres_url: str
) -> None:
    with ground(tmp_path, postgres_url) as made:
        made.raw.submit(made.raw.rows(30))
        made.raw.load(made.raw.block(made.raw.rows(1_100)))
        assert made.raw.drain(1_050) == 1_050
        waiting = made.admin.execute("select payload from fencepost_bench.job").fetchall()
        done = made.admin.execute(
            "select count(distinct id), min(result), max(result), count(completed_at) "
            "from fencepost_bench.done where result is not null"
        ).fetchone()
        assert len(waiting) == 80
        assert done == (1_050, "null", "null", 1_050)
        assert made.raw.drain(1_000) == 80
        made.raw.empty()
        assert made.raw.drain(1) == 0


def test_two_raw_claimers_never_share_a_job(tmp_path: Path, postgres_url: str) -> None:
    with ground(tmp_path, postgres_url) as made, made.connect() as other:
        made.raw.load(made.raw.block(made.raw.rows(600)))
        other.execute("begin")
        other.execute("select from fencepost_bench.job order by seq limit 500 for update")
        assert made.raw.drain(600) == 100, "what somebody has locked is skipped, not awaited"


def test_the_meter_counts_the_servers_work(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        meter = Meter(connection)
        before = meter.read()
        raw = RawTables(psycopg.connect(postgres_url, autocommit=True), SystemClock())
        raw.load(raw.block(raw.rows(5_000)))
        raw.drain(5_000)
        raw.close()
        cost = meter.cost(before, 5_000)
        connection.execute("drop schema fencepost_bench cascade")
    assert cost.wal_bytes > 100
    assert (cost.cpu_us is not None) == meter.sees_processes
    # Also once the session has ended, whose time the postmaster then has.
    assert cost.cpu_us is None or cost.cpu_us > 0


def test_claimers_have_a_connection_each() -> None:
    assert with_connections("postgresql://h/d") == "postgresql://h/d?pool_size=17"
    given = "postgresql://h/d?sslmode=require&pool_size=2"
    assert with_connections(given) == "postgresql://h/d?sslmode=require&pool_size=17"


def test_a_gauge_keeps_the_most() -> None:
    gauge = Gauge()
    for change in (3, 4, -3, 2, -6):
        gauge.add(change)
    assert gauge.most == 7


def test_rates_are_given_for_each_tenth() -> None:
    steady = [Mark(0, 0.0), *(Mark(5 * n, n / 10) for n in range(1, 21))]
    assert tenths(steady) == pytest.approx([50.0] * 10)
    slowing = [Mark(0, 0.0), Mark(50, 1.0), Mark(100, 3.0)]
    assert tenths(slowing) == [50.0, 25.0]
    assert tenths([Mark(0, 0.0)]) == []


def test_a_target_may_be_reached_exactly() -> None:
    target = Target("value", at_most=3.0)
    verdicts = [
        Figure(name="x", title="x", unit="ms", value=value, target=target).is_met
        for value in (3.0, 3.1)
    ]
    assert verdicts == [True, False]

"""The servers that other tests rely on: they start, crash, come back, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.servers import places
from tests.servers.account import copy_install
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.servers.keeper import ROOT
from tests.servers.places import NoServerError, find_programs, sources
from tests.servers.postgres import Postgres, PostgresServer

each_source = pytest.mark.parametrize("which", sources() or [places.WHEEL])
each_given = pytest.mark.parametrize("which", postgres_sources())


def ask(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def is_running(pid: int) -> bool:
    """Tell whether a process is there; an orphan that waits for init to reap it is not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # a system without /proc, or gone just now
    except ProcessLookupError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pids: list[int], folder: Path | None = None) -> None:
    deadline = time.monotonic() + 20
    while any(map(is_running, pids)) or (folder and folder.exists()):
        assert time.monotonic() < deadline, f"{pids} or {folder} is still there"
        time.sleep(0.02)


def processes(server: PostgresServer) -> list[int]:
    rows = ask(server.url(), "select pid from pg_stat_activity where pid <> pg_backend_pid()")
    return [server.pid, *(pid for (pid,) in rows if isinstance(pid, int))]


@each_source
def test_a_server_starts_as_it_was_asked_to(which: str) -> None:
    with PostgresServer(which, settings={"max_connections": "23"}) as server:
        assert server.source.split()[0] == which
        [(version,)] = ask(server.url(), "show server_version_num")
        assert server.source == f"{which} {int(str(version)) // 10_000}"
        [row] = ask(
            server.url(),
            "select current_user, current_setting('max_connections'), current_setting('fsync'), "
            "current_setting('server_encoding'), current_setting('listen_addresses')",
        )
        assert row == ("postgres", "23", "off", "UTF8", "127.0.0.1")


@each_source
def test_what_was_committed_survives_a_crash(which: str) -> None:
    with PostgresServer(which, durable=True) as server:
        url = server.create_database("jobs")
        assert ask(url, "show fsync") == [("on",)]
        with psycopg.connect(url) as connection:
            connection.execute("create table kept (id int)")
            connection.execute("insert into kept select generate_series(1, 100)")
        started = processes(server)
        with psycopg.connect(url) as open_while_it_crashes:
            open_while_it_crashes.execute("insert into kept values (101)")
            server.crash()
            # They have let go of memory and files, but the system may still be burying them.
            wait_until_gone(started)
            open_while_it_crashes.close()
        server.start()
        assert ask(url, "select count(*) from kept") == [(100,)]


@each_source
def test_a_restart_keeps_the_address_and_the_data(which: str) -> None:
    with PostgresServer(which) as server:
        url = server.create_database("jobs")
        with psycopg.connect(url) as connection:
            connection.execute("create table kept (id int)")
        server.settings["work_mem"] = "5MB"
        server.restart()
        assert ask(url, "select count(*), current_setting('work_mem') from kept") == [(0, "5MB")]
        server.drop_database("jobs")
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            ask(url, "select 1")


@each_source
def test_a_stopped_server_leaves_no_process_and_no_folder(which: str) -> None:
    server = PostgresServer(which)
    server.start()
    started = processes(server)
    assert len(started) > 3
    server.stop()
    wait_until_gone(started)
    assert server.folder.exists()
    server.close()
    assert not server.folder.exists()


OWNER = """
import sys, time
from tests.servers.postgres import PostgresServer
server = PostgresServer(sys.argv[1])
server.start()
print(server.pid, server.folder, flush=True)
time.sleep(600)
"""


@each_source
def test_a_server_does_not_outlive_tests_that_were_killed(which: str) -> None:
    command = [sys.executable, "-c", OWNER, which]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert is_running(int(pid))
        owner.kill()
    wait_until_gone([int(pid)], Path(folder))


SHARERS = """
import os
from pathlib import Path

import psycopg
import pytest

pytest_plugins = ["tests.servers.fixtures"]

@pytest.mark.parametrize("number", range(12))
def test_use(number, postgres_server, postgres_url, fresh_postgres):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table mine (id int)")
        [(data,)] = connection.execute("show data_directory").fetchall()
        [(pid,)] = connection.execute(
            "select pid from pg_stat_activity where backend_type = 'checkpointer'").fetchall()
    seen = Path(os.environ["SEEN"])
    with seen.open("a") as file:
        file.write(f"{data} {pid} {os.getpid()}\\n")
"""


@pytest.mark.parametrize("how", [["-n", "2"], ["-p", "no:xdist"]], ids=["many", "one"])
def test_the_processes_of_a_run_share_one_server_that_ends_with_them(
    how: list[str], tmp_path: Path
) -> None:
    (tmp_path / "test_sharers.py").write_text(SHARERS)
    seen = tmp_path / "seen"
    ours = ("PYTEST_", "FENCEPOST_")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *how, "test_sharers.py"],
        cwd=tmp_path,
        env=inherited | {"SEEN": str(seen), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in seen.read_text().splitlines()]
    assert len(lines) == 12
    assert len({pid for _, _, pid in lines}) == (2 if "-n" in how else 1)
    [(data, checkpointer)] = {(data, pid) for data, pid, _ in lines}
    wait_until_gone([int(checkpointer)], Path(data).parent)


def test_without_a_server_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_folders", lambda: iter(()))
    monkeypatch.delenv("FENCEPOST_TEST_POSTGRES", raising=False)
    with pytest.raises(NoServerError, match=r"make setup.*FENCEPOST_TEST_POSTGRES"):
        PostgresServer()
    assert postgres_sources() == ["wheel"]


def test_an_install_that_is_copied_runs_from_its_new_place(tmp_path: Path) -> None:
    _, programs = find_programs("wheel")
    copied = copy_install(programs, tmp_path)
    told = subprocess.run([copied / "postgres", "--version"], capture_output=True, check=True)
    assert told.stdout.startswith(b"postgres (PostgreSQL)")


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Move the wheel's programs below a folder that only its owner may enter."""
    _, programs = find_programs("wheel")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o700)
    copied = copy_install(programs, locked)
    monkeypatch.setattr(places, "_folders", lambda: iter([("wheel", copied)]))
    yield
    monkeypatch.undo()


def test_programs_that_the_user_of_the_server_cannot_reach_are_copied(private: None) -> None:
    with PostgresServer("wheel") as server:
        assert ask(server.url(), "select 1") == [(1,)]


@pytest.fixture
def stand_in(fresh_postgres: FreshPostgres) -> Iterator[FreshPostgres]:
    """`fresh_postgres` for a schema that is none of a store's, which finds no trace of it."""
    used: set[str] = set()

    def give(which: str) -> str:
        url = fresh_postgres(which)
        if url not in used:
            _drop(url)
            used.add(url)
        return url

    yield give
    for url in used:
        _drop(url)


def _drop(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("drop schema if exists fencepost cascade")


@each_given
def test_the_wiped_database_keeps_its_tables_without_rows(
    which: str, stand_in: FreshPostgres
) -> None:
    url = stand_in(which)
    script = """
        create schema if not exists fencepost;
        create table if not exists fencepost.schema_version (version int);
        create table if not exists fencepost.jobs (id bigserial primary key);
        create table if not exists fencepost.attempts (job_id bigint references fencepost.jobs);
        create sequence if not exists fencepost.tickets start 10;
    """
    with psycopg.connect(url) as connection:
        connection.execute(script)
        for _ in range(3):
            connection.execute("insert into fencepost.jobs default values")
            connection.execute("insert into fencepost.attempts select max(id) from fencepost.jobs")
        connection.execute("insert into fencepost.schema_version values (1)")
        tickets = connection.execute("select nextval('fencepost.tickets')").fetchone()
        assert tickets == (10,)
    assert ask(url, "select min(id), max(id) from fencepost.jobs") == [(1, 3)]
    assert stand_in(which) == url
    assert ask(url, "select count(*) from fencepost.jobs") == [(0,)]
    assert ask(url, "select count(*) from fencepost.attempts") == [(0,)]
    assert ask(url, "select count(*) from fencepost.schema_version") == [(1,)]
    assert ask(url, "insert into fencepost.jobs default values returning id") == [(1,)]


def test_a_forgotten_transaction_does_not_keep_the_next_test_waiting(
    stand_in: FreshPostgres,
) -> None:
    which = postgres_sources()[0]
    url = stand_in(which)
    with psycopg.connect(url) as connection:
        connection.execute("create schema if not exists fencepost")
        connection.execute("create table if not exists fencepost.forgotten (id int)")
        connection.execute("insert into fencepost.forgotten values (1)")
    forgotten = psycopg.connect(url)
    forgotten.execute("select * from fencepost.forgotten")
    stand_in(which)
    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("select 1")
    forgotten.close()
    assert ask(url, "select count(*) from fencepost.forgotten") == [(0,)]


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("postgres_url", postgres_sources(), indirect=True)
def test_an_empty_database_has_nothing_of_the_test_before(turn: int, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create schema fencepost")
        connection.execute("create table fencepost.jobs (id int)")
        connection.execute("create table of_the_application (id int)")


def test_databases_come_and_go(postgres_server: Postgres) -> None:
    name = f"fencepost_comes_and_goes_{os.getpid()}"
    url = postgres_server.create_database(name)
    copy = ""
    try:
        with psycopg.connect(url) as connection:
            connection.execute("create table copied (id int)")
        copy = postgres_server.create_database(f"{name}_copy", template=name)
        assert ask(copy, "select count(*) from copied") == [(0,)]
    finally:
        postgres_server.drop_database(name)
        postgres_server.drop_database(f"{name}_copy")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgresql://me@db:5432/postgres", "postgresql://me@db:5432/jobs"),
        ("postgresql://me:secret@db", "postgresql://me:secret@db/jobs"),
        ("postgresql://me@db/x?sslmode=require", "postgresql://me@db/jobs?sslmode=require"),
    ],
)
def test_the_url_of_a_database_keeps_the_rest_of_what_was_given(given: str, expected: str) -> None:
    assert Postgres(given, "given").url("jobs") == expected

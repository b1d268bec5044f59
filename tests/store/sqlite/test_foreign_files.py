"""A file that is not ours stays as it is. SQLite-specific: this engine is given a file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from fencepost.cli.main import cli
from fencepost.core.job.job import NewJob
from fencepost.errors import ForeignFileError
from fencepost.store.sqlite.engine import files
from fencepost.store.sqlite.engine.files import APPLICATION_ID
from fencepost.store.sqlite.store import SqliteStore

OPEN = """
import sys
from fencepost.core.job.job import NewJob
from fencepost.store.sqlite.store import SqliteStore
print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(sys.argv[1])
store.run(store.queue.enqueue([NewJob(type="t")]))
store.close()
"""


def _rollback(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table auth_user(id integer primary key)")


def _write_ahead(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table auth_user(id integer primary key)")


def _with_our_names(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table schema_version(version integer primary key)")
        connection.execute("create table jobs(id integer primary key)")


def _of_another_program(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("pragma application_id = 252006673")


def _text(path: str) -> None:
    Path(path).write_text("dear diary, " * 500)


def _one_byte(path: str) -> None:
    Path(path).write_bytes(b"x")


def _zeros(path: str) -> None:
    Path(path).write_bytes(bytes(8192))


MAKERS = [_rollback, _write_ahead, _with_our_names, _of_another_program, _text, _one_byte, _zeros]


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return what is in a folder, to the byte and the time of the last change."""
    return {
        each.name: (each.read_bytes(), each.stat().st_mtime_ns)
        for each in folder.iterdir()
        if each.is_file()
    }


@pytest.mark.parametrize("make", MAKERS)
def test_a_foreign_file_is_refused_and_nothing_changes(
    path: str, tmp_path: Path, make: Callable[[str], None]
) -> None:
    make(path)
    before = everything(tmp_path)
    with pytest.raises(ForeignFileError, match="not a Fencepost store"):
        SqliteStore(path)
    assert everything(tmp_path) == before
    assert os.listdir(tmp_path) == ["jobs.db"]


def test_a_folder_is_no_store(path: str, tmp_path: Path) -> None:
    os.mkdir(path)
    with pytest.raises(ForeignFileError, match="not a file"):
        SqliteStore(path)
    assert os.listdir(tmp_path) == ["jobs.db"]


@pytest.mark.parametrize("make", [_rollback, _write_ahead])
def test_no_command_changes_a_foreign_database(
    path: str, tmp_path: Path, make: Callable[[str], None]
) -> None:
    make(path)
    before = everything(tmp_path)
    for words in (["migrate"], ["migrate", "--plan"], ["doctor"], ["jobs", "ls"], ["queues", "ls"]):
        result = CliRunner().invoke(cli, ["--url", f"sqlite:///{path}", *words])
        assert result.exit_code == 1, words
        assert "not a Fencepost store" in result.output, words
        assert everything(tmp_path) == before, words
    assert os.listdir(tmp_path) == ["jobs.db"]


def test_a_refusal_leaves_the_locks_of_the_owner_alone(path: str) -> None:
    """To open and close a file drops every lock that the same process has on it (POSIX)."""
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("create table auth_user(id integer primary key)")
        owner.execute("begin immediate")
        with pytest.raises(ForeignFileError):
            SqliteStore(path)
        attempt = (
            "import sqlite3, sys; "
            "sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)"
            ".execute('begin immediate')"
        )
        done = subprocess.run([sys.executable, "-c", attempt, path], capture_output=True)
        assert b"database is locked" in done.stderr
        owner.execute("rollback")


def test_an_empty_file_becomes_a_store(path: str) -> None:
    Path(path).touch()
    store = SqliteStore(path)
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert store._database.pragma("application_id") == APPLICATION_ID
    store.close()


class Watched(sqlite3.Connection):
    """Looks after each statement as another process would that opens the same file then."""

    path = ""

    def execute(self, sql: str, /, *_: object) -> sqlite3.Cursor:
        cursor = super().execute(sql)
        files.refuse_foreign(self.path)
        return cursor


def test_a_store_that_is_being_made_is_never_taken_for_a_strangers(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, factory=Watched)) as connection:
        assert isinstance(connection, Watched)
        connection.path = path
        files.claim(connection, path)
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t(x)")
    # And one whose maker died at once becomes whole.
    store = SqliteStore(path)
    store.run(store.queue.enqueue([NewJob(type="t")]))
    store.close()


def test_a_store_whose_last_checkpoint_was_cut_short_is_still_known(path: str) -> None:
    """Its header may count more pages than the file has: the rest is in the log."""
    store = SqliteStore(path)
    store.run(store.queue.enqueue([NewJob(type="t")]))
    store.close()
    whole = Path(path).read_bytes()
    os.truncate(path, 3 * 4096)
    files.refuse_foreign(path)
    Path(path).write_bytes(whole)
    SqliteStore(path).close()


def test_processes_that_make_a_store_at_once_all_succeed(path: str) -> None:
    """The check must not mistake a store that is half made for a stranger's."""
    command = [sys.executable, "-c", OPEN, path]
    crew = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)
    ]
    for each in crew:
        assert each.stdout is not None
        each.stdout.readline()
    for each in crew:
        assert each.stdin is not None
        each.stdin.write(b"\n")
        each.stdin.flush()
    for each in crew:
        each.communicate(timeout=60)
    assert [each.returncode for each in crew] == [0] * 4
    store = SqliteStore(path)
    assert [sum(view.counts.values()) for view in store.run(store.overview.types())] == [4]
    store.close()

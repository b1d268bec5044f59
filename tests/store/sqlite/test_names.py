"""One file under several names. SQLite-specific: it is the engine that has a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.core.job.job import NewJob
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.store import Topic
from fencepost.store.sqlite.store import SqliteStore


def symlink(folder: Path) -> str:
    os.symlink(folder / "real" / "jobs.db", folder / "link.db")
    return str(folder / "link.db")


def symlink_to_a_symlink(folder: Path) -> str:
    os.symlink(symlink(folder), folder / "other.db")
    return str(folder / "other.db")


def symlinked_folder(folder: Path) -> str:
    os.symlink(folder / "real", folder / "linked")
    return str(folder / "linked" / "jobs.db")


def relative(folder: Path) -> str:
    return os.path.relpath(folder / "real" / "jobs.db")


def dotted(folder: Path) -> str:
    return str(folder / "real" / ".." / "real" / "jobs.db")


NAMES = [symlink, symlink_to_a_symlink, symlinked_folder, relative, dotted]


@pytest.fixture
def real(tmp_path: Path) -> str:
    (tmp_path / "real").mkdir()
    return str(tmp_path / "real" / "jobs.db")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_leads_to_one_lock_one_bell_and_one_log(
    tmp_path: Path, real: str, name: object
) -> None:
    """S0-55: two side-car locks would let two processes write at once."""
    assert callable(name)
    first = SqliteStore(real)
    other = SqliteStore(name(tmp_path))
    listener = first.listen(Topic.READY)
    (reply,) = other.run(other.queue.enqueue([NewJob(type="t")]))
    assert listener.wait(0)
    assert first.run(first.reader.get([reply.job_id])) != [None]
    inodes = {os.fstat(store._database._log.fd).st_ino for store in (first, other)}
    assert inodes == {os.stat(f"{real}-wal").st_ino}
    listener.close()
    other.close()
    first.close()
    present = {each.name for each in tmp_path.rglob("*") if each.is_file() or each.is_dir()}
    assert {each for each in present if each.endswith(("-lock", "-wal", ".d"))} == {
        "jobs.db-lock",
        "jobs.db.d",
    }


@pytest.mark.parametrize("name", NAMES)
def test_what_is_forced_is_the_log_and_the_folder_of_the_file_itself(
    tmp_path: Path, real: str, name: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-4: the log beside a symlink is another file, and forcing that makes nothing durable."""
    assert callable(name)
    forced: list[int] = []
    for call in ("fsync", "fdatasync"):
        done = getattr(os, call)

        def note(fd: int, done: object = done) -> None:
            assert callable(done)
            forced.append(os.fstat(fd).st_ino)
            done(fd)

        monkeypatch.setattr(os, call, note)
    store = SqliteStore(name(tmp_path))
    assert os.stat(os.path.dirname(real)).st_ino in forced
    forced.clear()
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert os.stat(f"{real}-wal").st_ino in forced
    store.close()


def test_a_symlink_to_a_file_that_is_not_there_yet_makes_that_file(
    tmp_path: Path, real: str
) -> None:
    store = SqliteStore(symlink(tmp_path))
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert os.path.isfile(real)
    assert os.path.islink(tmp_path / "link.db")
    store.close()


def test_a_link_to_itself_is_unavailable(tmp_path: Path) -> None:
    os.symlink(tmp_path / "loop.db", tmp_path / "loop.db")
    with pytest.raises(StoreUnavailableError):
        SqliteStore(str(tmp_path / "loop.db"))


def test_a_file_with_two_hard_links_is_refused(tmp_path: Path, real: str) -> None:
    """SQLite gives each name a log of its own: two processes would each miss half of the jobs."""
    SqliteStore(real).close()
    os.link(real, tmp_path / "second.db")
    for name in (real, str(tmp_path / "second.db")):
        with pytest.raises(StoreUnavailableError, match="hard link"):
            SqliteStore(name)
    os.unlink(tmp_path / "second.db")
    SqliteStore(real).close()

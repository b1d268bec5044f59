"""Files that another user put where a store will look for its own.

SQLite-specific: other engines have no files on this machine. The folders have the sticky bit, as
``/tmp`` has: there, whoever is first keeps the name.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import NewJob
from fencepost.errors import ForeignFileError, StoreUnavailableError
from fencepost.store.open import open_store
from fencepost.store.sqlite.engine import files
from fencepost.store.sqlite.engine.ownership import LINKS_MAX
from fencepost.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for other users")

ROOT, ME, STRANGER, GROUP = 0, 54_321, 65_534, 54_322
FILES = ("jobs.db", "jobs.db-lock", "jobs.db-wal", "jobs.db-shm", "jobs.db-journal")


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    """Have this process be another user for a while, as far as files are concerned."""
    before = os.geteuid()
    _become(user)
    try:
        yield
    finally:
        _become(before)


def _become(user: int) -> None:
    os.seteuid(ROOT)
    os.seteuid(user)


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Use a store once: what is imported on first use may lie where only root can read."""
    with tempfile.TemporaryDirectory() as place:
        SqliteStore(f"{place}/jobs.db").close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder like ``/tmp``: everybody creates files, and only their owners remove them."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-sticky-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def _empty(path: Path) -> None:
    path.touch()
    path.chmod(0o666)


def _link(path: Path) -> None:
    path.symlink_to(path.parent / "elsewhere")


def _folder(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def _fifo(path: Path) -> None:
    os.mkfifo(path)
    path.chmod(0o666)


PLANTED: list[tuple[str, Callable[[Path], None]]] = [
    *((name, _empty) for name in FILES),
    *((name, _link) for name in (*FILES, "jobs.db.d")),
    *((name, _fifo) for name in FILES[1:]),
    ("jobs.db.d", _folder),
]


@pytest.mark.parametrize("user", [ROOT, ME], ids=["root", "user"])
@pytest.mark.parametrize(("name", "plant"), PLANTED)
def test_a_file_of_another_user_is_refused_by_its_name(
    folder: Path, name: str, plant: Callable[[Path], None], user: int
) -> None:
    """The error names the file, its owner and what to do; nothing is written to it."""
    with acting_as(STRANGER):
        plant(folder / name)
    with acting_as(user), pytest.raises(ForeignFileError) as refused:
        SqliteStore(str(folder / "jobs.db"))
    assert str(folder / name) in str(refused.value)
    assert "remove" in str(refused.value)
    assert not (folder / "elsewhere").exists()
    if plant is _empty:
        assert (folder / name).read_bytes() == b""


@pytest.mark.parametrize("user", [ROOT, ME], ids=["root", "user"])
def test_a_store_of_another_user_is_refused(folder: Path, user: int) -> None:
    """Else the other user chooses what our handlers run."""
    path = str(folder / "jobs.db")
    with acting_as(STRANGER):
        store = SqliteStore(path)
        store.run(store.queue.enqueue([NewJob(type="forged")]))
        store.close()
        os.chmod(path, 0o666)
    with acting_as(user), pytest.raises(ForeignFileError, match=f"belongs to user {STRANGER}"):
        SqliteStore(path)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_our_store_stays_ours_between_two_openings(folder: Path, suffix: str) -> None:
    """Its log is deleted by the last that closes it, and another user is first to make it again."""
    path = folder / "jobs.db"
    planted = Path(f"{path}{suffix}")
    with acting_as(ME):
        SqliteStore(str(path)).close()
    with acting_as(STRANGER):
        _empty(planted)
    with acting_as(ME), pytest.raises(ForeignFileError, match=suffix):
        SqliteStore(str(path))
    planted.unlink()
    with acting_as(ME):
        store = SqliteStore(str(path))
        store.run(store.queue.enqueue([NewJob(type="t")]))
        store.close()


def test_no_journal_can_be_planted_beside_our_store(folder: Path) -> None:
    """SQLite would copy its pages into the database; so its name is taken, by an empty file."""
    path = str(folder / "jobs.db")
    for _ in range(2):  # a new store, and one that is there
        with acting_as(ME):
            store = SqliteStore(path)
            store.run(store.queue.enqueue([NewJob(type="t")]))
        status = os.lstat(f"{path}-journal")
        assert (status.st_uid, status.st_size) == (ME, 0)
        with acting_as(ME):
            assert store.run(store.reader.count(JobFilter())) > 0
            store.close()
        assert os.lstat(f"{path}-journal").st_size == 0


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_appears_just_before_sqlite_opens_it_is_refused(
    folder: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look at a new store and SQLite's, the name is free."""
    path = folder / "jobs.db"
    claim = files.claim

    def claim_late(connection: sqlite3.Connection, name: str) -> None:
        claim(connection, name)
        with acting_as(ROOT):
            _empty(Path(f"{path}{suffix}"))
            os.chown(f"{path}{suffix}", STRANGER, -1)

    monkeypatch.setattr(files, "claim", claim_late)
    with acting_as(ME), pytest.raises(StoreUnavailableError, match=suffix):
        SqliteStore(str(path))


def test_a_hard_link_to_a_file_of_ours_is_not_written_to(folder: Path) -> None:
    """Where the system lets others link our files, a lock could be any of them."""
    mine = folder / "mine"
    mine.write_bytes(b"precious")
    os.chown(mine, ME, -1)
    os.link(mine, folder / "jobs.db-lock")
    with acting_as(ME), pytest.raises(ForeignFileError, match="hard links"):
        SqliteStore(str(folder / "jobs.db"))
    assert mine.read_bytes() == b"precious"


def test_a_link_of_another_user_leads_nowhere(folder: Path) -> None:
    """It could lead to another store of ours, where the jobs would be lost among others."""
    target = folder / "other" / "jobs.db"
    with acting_as(ME):
        target.parent.mkdir()
        SqliteStore(str(target)).close()
    with acting_as(STRANGER):
        (folder / "jobs.db").symlink_to(target)
        (folder / "app").symlink_to(target.parent)
    for name in ("jobs.db", "app/jobs.db", "other/../app/./jobs.db"):
        with acting_as(ME), pytest.raises(ForeignFileError, match="is a link"):
            SqliteStore(str(folder / name))


@pytest.mark.parametrize("owner", [ROOT, ME])
def test_links_of_ours_and_of_root_are_followed(folder: Path, owner: int) -> None:
    target = folder / "other" / "jobs.db"
    with acting_as(ME):
        target.parent.mkdir()
    with acting_as(owner):
        (folder / "jobs.db").symlink_to("app/jobs.db")
        (folder / "app").symlink_to(target.parent)
    with acting_as(ME):
        SqliteStore(str(folder / "jobs.db")).close()
    assert target.exists()


def test_a_link_of_another_user_is_followed_where_that_user_manages_the_folder(
    folder: Path,
) -> None:
    """A deployment links to its newest release, and the app runs as another user."""
    place = folder / "srv"
    place.mkdir(0o755)
    data = place / "release"
    data.mkdir()
    os.chown(data, ME, -1)
    (place / "current").symlink_to("release")
    for each in (place, place / "current"):
        os.chown(each, STRANGER, -1, follow_symlinks=False)
    with acting_as(ME):
        SqliteStore(str(place / "current" / "jobs.db")).close()
    assert (data / "jobs.db").exists()


def test_links_without_end_are_refused(folder: Path) -> None:
    for place in range(LINKS_MAX + 1):
        (folder / f"link{place}").symlink_to(f"link{place + 1}")
    with pytest.raises(ForeignFileError, match="links"):
        SqliteStore(str(folder / "link0"))
    SqliteStore(str(folder / "link1")).close()


# Whose files are used.


def test_files_of_root_are_used(folder: Path) -> None:
    """Root can do everything anyway, and may have made the file for us."""
    with acting_as(ROOT):
        _empty(folder / "jobs.db-lock")
    with acting_as(ME):
        SqliteStore(str(folder / "jobs.db")).close()


def in_group(path: Path, group: int) -> None:
    _empty(path)
    path.chmod(0o660)
    os.chown(path, STRANGER, group)


def test_files_of_the_group_are_used_and_others_refused(folder: Path) -> None:
    url = f"sqlite:///{folder}/jobs.db?group={GROUP}"
    for name in FILES[:2]:
        in_group(folder / name, GROUP)
    store = open_store(url)
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert len(store.run(store.reader.find(JobFilter(), PageRequest())).jobs) == 1
    store.close()
    with pytest.raises(ForeignFileError, match="group=NAME"):  # who does not name the group
        open_store(f"sqlite:///{folder}/jobs.db")
    os.chown(folder / "jobs.db-lock", STRANGER, STRANGER)
    with pytest.raises(ForeignFileError, match=r"jobs\.db-lock"):
        open_store(url)


def test_the_group_of_a_folder_for_everybody_proves_nothing(folder: Path) -> None:
    """Files that anybody creates there have the group of the folder."""
    os.chown(folder, -1, GROUP)
    folder.chmod(0o3777)
    in_group(folder / "jobs.db-lock", GROUP)
    with pytest.raises(ForeignFileError, match=r"jobs\.db-lock"):
        open_store(f"sqlite:///{folder}/jobs.db?group={GROUP}")


def test_root_uses_the_store_of_a_user_where_only_that_user_creates_files(folder: Path) -> None:
    home = folder / "home"
    with acting_as(ME):
        home.mkdir(0o700)
        SqliteStore(str(home / "jobs.db")).close()
    SqliteStore(str(home / "jobs.db")).close()
    os.chown(home / "jobs.db-lock", STRANGER, -1)
    with pytest.raises(ForeignFileError, match=r"jobs\.db-lock"):
        SqliteStore(str(home / "jobs.db"))

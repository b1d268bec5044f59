"""Who may open a store's files. SQLite-specific: other engines have no files on this machine."""

from __future__ import annotations

import grp
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import NewJob
from fencepost.errors import ConfigurationError, ForeignFileError
from fencepost.store.interface.records.overview import Finding
from fencepost.store.interface.store import Topic
from fencepost.store.open import open_store
from fencepost.store.sqlite.engine.files import Access
from fencepost.store.sqlite.store import SqliteStore

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
MEMBER, GROUP, STRANGER = 54_321, 54_322, 65_534
ME, STRANGERS, MEMBERS_ALONE = ",", f"{STRANGER},{STRANGER}", f"{MEMBER},{MEMBER}"
FIRST, OTHER = f"{MEMBER},{MEMBER},{GROUP}", f"{MEMBER + 5},{MEMBER + 5},{GROUP}"
"""Who runs a process: user, group and further groups."""
UMASKS = ["0", "0o002", "0o022", "0o077", "0o177", "0o777"]

# Becomes another user, if one is given. The interpreter may lie where only root can read, so all
# that it still needs is loaded before, by using a store once.
BECOME = """
import ctypes, fcntl, os, sys, tempfile
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import NewJob
from fencepost.errors import ConfigurationError
from fencepost.store.open import open_store
from fencepost.store.interface.store import Topic
user, group, *extra = sys.argv.pop(1).split(",")
if user:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/jobs.db")
        store.run(store.queue.enqueue([NewJob(type="t")]))
        store.listen(Topic.READY).wait(0)
        store.close()
    os.setgroups([int(each) for each in extra])
    os.setgid(int(group))
    os.setuid(int(user))
"""

# Opens a store under an umask, writes to it, listens, and prints every file's mode and group.
USE = """
umask, url, folder = sys.argv[1:]
os.umask(int(umask, 0))
store = open_store(url)
listener = store.listen(Topic.READY)
store.run(store.queue.enqueue([NewJob(type="t")]))
for place, folders, files in os.walk(folder):
    for name in folders + files:
        path = os.path.join(place, name)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue  # the socket of a process that has ended meanwhile
        print(oct(found.st_mode & 0o7777), found.st_gid, os.path.relpath(path, folder), sep="|")
listener.close()
store.close()
"""

# What a stranger tries with every file and folder that there is.
ATTACK = """
got = []
for place, folders, files in os.walk(sys.argv[1]):
    for name in folders + files:
        path = os.path.join(place, name)
        for flags in (os.O_RDONLY, os.O_RDWR):
            try:
                fd = os.open(path, flags)
            except OSError:
                continue
            got.append(f"opened {name}")
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("; ".join(got) or "nothing")
"""


def use(umask: str, url: str, folder: Path, whom: str = ME) -> dict[str, tuple[int, int]]:
    """Use a store in a process of its own; return mode and group of every file by its name."""
    printed = child(USE, umask, url, str(folder), whom=whom)
    rows = [line.split("|", 2) for line in printed.splitlines()]
    return {name: (int(mode, 0), int(group)) for mode, group, name in rows}


def child(script: str, *words: str, whom: str = ME) -> str:
    """Run *script* as user, group and further groups; return what it printed."""
    process = start(script, *words, whom=whom)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return printed


def start(script: str, *words: str, whom: str = ME) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BECOME + script, whom, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user of the machine can reach and write to."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.lstat().st_mode) for each in folder.iterdir()}


def findings(store: SqliteStore) -> list[Finding]:
    return [each for each in store.run(store.overview.inspect()) if each.code == "permissions"]


@pytest.mark.parametrize("umask", UMASKS)
def test_every_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path, umask: str) -> None:
    found = use(umask, f"sqlite:///{tmp_path}/jobs.db", tmp_path)
    sockets = {name: mode for name, (mode, _) in found.items() if name.endswith(".sock")}
    assert len(sockets) == 1
    assert all(mode & 0o077 == 0 for mode in sockets.values())
    assert {name: oct(mode) for name, (mode, _) in found.items() if name not in sockets} == {
        "jobs.db": "0o600",
        "jobs.db-wal": "0o600",
        "jobs.db-shm": "0o600",
        "jobs.db-lock": "0o600",
        "jobs.db.d": "0o700",
    }


def test_a_folder_whose_maker_died_before_it_had_its_mode_is_opened(tmp_path: Path) -> None:
    """Under a umask of 0777 it was made with no right for anyone, its owner included."""
    folder = tmp_path / "jobs.db.d"
    folder.mkdir(mode=0o000)
    store = SqliteStore(str(tmp_path / "jobs.db"))
    listener = store.listen(Topic.READY)
    assert modes(tmp_path)["jobs.db.d"] == 0o700
    listener.close()
    store.close()


def test_no_file_is_open_to_others_even_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode is part of the creation: nobody gets in between that and a chmod."""
    seen: list[str] = []
    chmod = os.chmod

    def look_first(made: int | str, mode: int) -> None:
        seen.append(oct(os.stat(made).st_mode & 0o077))
        chmod(made, mode)

    monkeypatch.setattr(os, "chmod", look_first)
    before = os.umask(0)
    try:
        SqliteStore(str(tmp_path / "jobs.db")).close()
    finally:
        os.umask(before)
    assert seen == ["0o0"] * 3  # the lock, the database, the folder of the sockets


def test_many_processes_that_begin_at_once_make_the_same_files(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    children = [start(USE, umask, url, str(tmp_path)) for umask in ("0", "0o022", "0o077", "0")]
    for each in children:
        _, errors = each.communicate(timeout=60)
        assert each.returncode == 0, errors
    assert all(mode & 0o077 == 0 for mode in modes(tmp_path).values())
    store = open_store(url)
    assert len(store.run(store.reader.find(JobFilter(), PageRequest())).jobs) == len(children)
    store.close()


def test_a_process_that_dies_right_after_creating_leaves_a_file_that_becomes_the_store(
    tmp_path: Path,
) -> None:
    path = tmp_path / "jobs.db"
    Access().make_file(str(path))
    os.close(Access().open_file(f"{path}-lock"))
    store = SqliteStore(str(path))
    store.run(store.queue.enqueue([NewJob(type="t")]))
    store.close()
    assert modes(tmp_path)["jobs.db"] == 0o600


def test_an_empty_file_that_an_operator_made_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    path.chmod(0o640)
    SqliteStore(str(path)).close()
    assert modes(tmp_path)["jobs.db"] == 0o640


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """In a folder that others write to, a link would lead our writes to a file of their choice."""
    target = tmp_path / "precious"
    target.touch()
    os.symlink(target, tmp_path / "jobs.db-lock")
    with pytest.raises(ForeignFileError, match="is a link"):
        SqliteStore(str(tmp_path / "jobs.db"))
    assert target.read_bytes() == b""


@as_root
def test_a_stranger_opens_nothing_and_stops_no_write(open_folder: Path) -> None:
    """Who can open the lock file can hold its lock, and stop every write."""
    before = os.umask(0)
    try:
        store = SqliteStore(str(open_folder / "jobs.db"), patience=1.0)
    finally:
        os.umask(before)
    listener = store.listen(Topic.READY)
    attack = child(ATTACK, str(open_folder), whom=STRANGERS)
    assert attack == "nothing\n"
    store.run(store.queue.enqueue([NewJob(type="t")]))
    listener.close()
    store.close()


# A group.


def own_group() -> int:
    """Return a group of this process that is not the one its files get by themselves, if any."""
    groups = [each for each in os.getgroups() if each != os.getegid()]
    return groups[0] if groups else os.getegid()


@pytest.mark.parametrize("umask", UMASKS)
def test_with_a_group_every_file_is_open_to_it_and_to_nobody_else(
    tmp_path: Path, umask: str
) -> None:
    group = GROUP if os.geteuid() == 0 else own_group()
    found = use(umask, f"sqlite:///{tmp_path}/jobs.db?group={group}", tmp_path)
    assert {gid for _, gid in found.values()} == {group}
    folder = found.pop("jobs.db.d")
    assert folder[0] == 0o770
    assert {oct(mode) for mode, _ in found.values()} == {"0o660"}
    assert len(found) == 5


@as_root
def test_users_of_a_group_share_a_store_and_wake_each_other(open_folder: Path) -> None:
    """Neither's own group is the one they share, and SQLite gives its files the maker's own."""
    url = f"sqlite:///{open_folder}/jobs.db?group={GROUP}"
    share = """
os.umask(0o077)
store = open_store(sys.argv[1])
listener = store.listen(Topic.READY)
print("ready", flush=True)
sys.stdin.readline()
heard = listener.wait(20)
print(heard, len(store.run(store.reader.find(JobFilter(), PageRequest())).jobs), flush=True)
sys.stdin.readline()
listener.close()
store.close()
"""
    waiting = start(share, url, whom=FIRST)
    assert waiting.stdin is not None
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    use("0o077", url, open_folder, OTHER)
    waiting.stdin.write("\n")
    waiting.stdin.flush()
    assert waiting.stdout.readline() == "True 1\n"
    attack = child(ATTACK, str(open_folder / "jobs.db.d"), whom=STRANGERS)
    assert attack == "nothing\n"
    waiting.communicate("\n", timeout=60)
    assert waiting.returncode == 0
    # All have closed, and SQLite has deleted its log: the other begins it again.
    use("0o077", url, open_folder, OTHER)
    use("0o077", url, open_folder, FIRST)


@as_root
def test_the_group_gets_what_sqlite_made_for_the_group_of_the_process(path: str) -> None:
    for suffix in ("-wal", "-shm"):
        os.close(os.open(f"{path}{suffix}", os.O_CREAT, 0o600))
    Access(GROUP).check_sqlite_files(path)
    for suffix in ("-wal", "-shm"):
        status = os.stat(f"{path}{suffix}")
        assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, GROUP)


def test_a_group_may_be_named(tmp_path: Path) -> None:
    try:
        name = grp.getgrgid(os.getegid()).gr_name
    except KeyError:
        pytest.skip("the group of this process has no name")
    found = use("0", f"sqlite:///{tmp_path}/jobs.db?group={name}", tmp_path)
    assert found["jobs.db"] == (0o660, os.getegid())


@pytest.mark.parametrize("name", ["", "no such group", "-1", "²", "99999999999"])
def test_a_group_that_is_none_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="group"):
        open_store(f"sqlite:///{tmp_path}/jobs.db?group={name}")
    assert list(tmp_path.iterdir()) == []


@as_root
def test_a_group_of_others_is_refused_before_anything_is_made(open_folder: Path) -> None:
    script = """
try:
    open_store(sys.argv[1])
except ConfigurationError as error:
    print(error)
"""
    url = f"sqlite:///{open_folder}/jobs.db?group={GROUP}"
    printed = child(script, url, whom=STRANGERS)
    assert "is not a member" in printed
    assert list(open_folder.iterdir()) == []


@as_root
def test_what_root_makes_beside_a_users_database_is_the_users(open_folder: Path) -> None:
    """Else `sudo fencepost doctor` could leave a lock that the workers cannot open."""
    open_folder.chmod(0o755)
    os.chown(open_folder, MEMBER, MEMBER)
    path = open_folder / "jobs.db"
    url = f"sqlite:///{path}"
    use("0o022", url, open_folder, MEMBERS_ALONE)
    os.unlink(f"{path}-lock")
    shutil.rmtree(f"{path}.d")
    SqliteStore(str(path)).close()
    assert {each.lstat().st_uid for each in open_folder.iterdir()} == {MEMBER}
    use("0o022", url, open_folder, MEMBERS_ALONE)


# What the doctor says.


def test_the_doctor_is_content_with_what_the_store_makes(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    store = SqliteStore(str(tmp_path / "jobs.db"))
    assert [each.level for each in findings(store)] == ["ok"]
    store.close()


OPENED: list[tuple[str, int, str]] = [
    ("jobs.db", 0o604, "every user of this machine can read"),
    ("jobs.db", 0o606, "every user of this machine can write to"),
    ("jobs.db-wal", 0o604, "every user of this machine can read"),
    ("jobs.db-shm", 0o602, "every user of this machine can write to"),
    ("jobs.db-lock", 0o604, "hold its lock"),
    ("jobs.db.d", 0o705, "every user of this machine can read"),
    ("jobs.db", 0o640, "can read"),
    ("jobs.db-lock", 0o660, "hold its lock"),
]


@pytest.mark.parametrize(("name", "mode", "text"), OPENED)
def test_the_doctor_warns_of_what_others_can_open(
    tmp_path: Path, name: str, mode: int, text: str
) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    (tmp_path / name).chmod(mode)
    (found,) = findings(store)
    assert found.level == "warn"
    assert text in found.text
    assert name in found.text
    assert "chmod" in found.text
    store.close()


def test_the_doctor_warns_of_a_folder_that_others_write_to(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    for mode in (0o777, 0o1777, 0o703):
        tmp_path.chmod(mode)
        (found,) = findings(store)
        assert (found.level, "can create files in" in found.text) == ("warn", True)
    tmp_path.chmod(0o700)
    store.close()


def test_the_doctor_warns_of_a_group_that_cannot_open_the_files(tmp_path: Path) -> None:
    group = os.getegid()
    store = SqliteStore(str(tmp_path / "jobs.db"), group=str(group))
    assert [each.level for each in findings(store)] == ["ok"]
    (tmp_path / "jobs.db").chmod(0o600)
    (found,) = findings(store)
    assert found.level == "warn"
    assert "chmod 660" in found.text
    store.close()


@as_root
def test_the_doctor_warns_of_a_file_of_another_user(tmp_path: Path) -> None:
    """A lock file that a stranger had put there before is the stranger's to hold."""
    store = SqliteStore(str(tmp_path / "jobs.db"))
    os.chown(tmp_path / "jobs.db-lock", STRANGER, -1)
    (found,) = findings(store)
    assert found.level == "warn"
    assert "belongs to" in found.text
    store.close()

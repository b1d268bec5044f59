"""Which handlers of a worker had started when it died: what its record says, at any instant."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from fencepost.core.bounds import UNSETTLED_MAX
from fencepost.platform import files, system
from fencepost.worker.run.inflight import InFlight
from fencepost.worker.starts import (
    KEPT,
    TOKEN_BYTES,
    DeadRecord,
    StartRecord,
    dead_record,
    records,
    runtime_folder,
)

TTL = 30.0
CAPACITY = 4 * (1 + UNSETTLED_MAX) * TOKEN_BYTES
"""Bytes of each half of a record of one slot."""


class Held:
    """The tokens that a worker holds, and its record."""

    def __init__(self, folder: Path, worker: str = "w1") -> None:
        self.tokens: list[str] = []
        self.record = StartRecord(folder, worker, slots=1, lease_ttl=TTL, live=lambda: self.tokens)

    def start(self, token: str) -> None:
        self.tokens.append(token)
        assert self.record.add(token)

    def die(self) -> None:
        """Leave the file as the end of the process would."""
        self.record.close(is_empty=False)


def started(held: Held, *tokens: str) -> list[str]:
    """Return those of *tokens* that the record of a dead worker names."""
    with dead_record(held.record.path) as record:
        assert record is not None
        return [token for token in tokens if record.has_started(token)]


def test_what_has_started_is_on_record_and_nothing_else(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.start("1.a")
    held.start("2.b")
    held.die()
    assert started(held, "1.a", "1.", "1.aa", "2.b", "3.c", "") == ["1.a", "2.b"]


def test_the_record_of_a_living_worker_is_not_read(tmp_path: Path) -> None:
    held = Held(tmp_path)
    with dead_record(held.record.path) as record:
        assert record is None
    held.die()
    with dead_record(held.record.path) as record, dead_record(held.record.path) as second:
        assert isinstance(record, DeadRecord)
        assert record.worker == "w1"
        assert isinstance(second, DeadRecord), "two may ask their stores at once"


def test_a_killed_process_leaves_its_record(tmp_path: Path) -> None:
    """C41: nothing is written by it after its end, and nothing has to be."""
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from fencepost.worker.starts import StartRecord\n"
        "record = StartRecord(Path(sys.argv[1]), 'w1', slots=1, lease_ttl=30.0, live=list)\n"
        "record.add('1.a')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    (path,) = records(tmp_path)
    with dead_record(path) as record:
        assert record is not None
        assert record.has_started("1.a")
        assert not record.has_started("2.b")


def test_what_a_handler_forks_does_not_keep_the_record_of_its_worker(tmp_path: Path) -> None:
    """C41: such a child may live on long after the worker has died."""
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from fencepost.worker.starts import StartRecord\n"
        "record = StartRecord(Path(sys.argv[1]), 'w1', slots=1, lease_ttl=30.0, live=list)\n"
        "record.add('1.a')\n"
        "if os.fork() == 0:\n"
        "    print(record.add('of the child'), flush=True)\n"
        "    sys.stdin.read()\n"
        "else:\n"
        "    signal.pause()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        answer = worker.stdout.readline()
        (path,) = records(tmp_path)
        with dead_record(path) as record:
            is_locked = record is None
        worker.kill()
        worker.wait()
        assert answer == b"False\n", "the child starts nothing"
        assert is_locked, "by the worker, which was alive"
        with dead_record(path) as record:
            assert record is not None
            assert record.has_started("1.a")
            assert not record.has_started("of the child")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_this_process_forks_lets_go_of_the_lock(tmp_path: Path) -> None:
    """C41: the same once more without a second interpreter, in which a mutant would not be."""
    record = StartRecord(tmp_path, "w1", slots=1, lease_ttl=30.0, live=list)
    answers, answer = os.pipe()
    wait, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(answer, b"ready")
        os.close(end)
        os.read(wait, 1)
        os._exit(0)
    try:
        assert os.read(answers, 5) == b"ready"
        record.close(is_empty=False)
        with dead_record(record.path) as found:
            assert found is not None, "the child, which lives, keeps it locked"
    finally:
        os.close(end)
        os.waitpid(child, 0)
        for each in (answers, answer, wait):
            os.close(each)


def test_a_token_that_was_being_written_has_not_started(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.start("1.a")
    at = held.record._at
    held.record._map[at : at + 3] = b"2.b"  # the process dies before the end of the line
    held.die()
    assert started(held, "1.a", "2.b", "2.") == ["1.a"]


def test_a_full_record_goes_on_with_what_is_held(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.start("first")
    count = 3 * CAPACITY // len("000000\n")
    for number in range(count):
        held.start(f"{number:06}")
        held.tokens.remove(f"{number:06}")  # it has ended
    held.start("last")
    held.die()
    assert started(held, "first", "last", "000000") == ["first", "last"]
    assert os.stat(held.record.path).st_size < 3 * CAPACITY


def test_what_starts_while_a_record_turns_over_is_on_it(tmp_path: Path) -> None:
    """Threads start handlers at the same time: each is copied, or written after the copy."""
    held = Held(tmp_path)
    kept: list[str] = []
    gate = threading.Barrier(4)

    def start(thread: int) -> None:
        gate.wait()
        for number in range(40_000):
            token = f"{thread}.{number}"
            if number % 1_000 == 0:
                held.tokens.append(token)
                kept.append(token)
            held.record.add(token)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held.die()
    assert started(held, *kept) == kept


def test_more_than_there_is_room_for_is_taken_as_started(tmp_path: Path) -> None:
    """C41: what is not known is counted, never released."""
    held = Held(tmp_path)
    held.tokens = [f"{number:0100}" for number in range(CAPACITY // 100)]
    for token in held.tokens:
        assert held.record.add(token)
    assert held.record.add("one more")
    held.die()
    assert started(held, "never") == ["never"]


def test_a_record_from_before_the_machine_was_started_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C41: what a file in memory said at a power cut is not what the disk has of it."""
    held = Held(tmp_path)
    held.start("1.a")
    held.die()
    boot = tmp_path / "boot"
    boot.write_text("another\n")
    monkeypatch.setattr(system, "BOOT", boot)
    assert started(held, "1.a", "2.b") == ["1.a", "2.b"]


def test_a_worker_that_ends_holding_nothing_leaves_no_record(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.start("1.a")
    held.record.close(is_empty=True)
    assert records(tmp_path) == []
    held.record.close(is_empty=True)


def test_a_thread_that_outlives_its_worker_starts_nothing(tmp_path: Path) -> None:
    """Its job may have been released by then, and be running elsewhere."""
    held = Held(tmp_path)
    held.die()
    assert not held.record.add("1.a")


def test_a_second_run_of_a_worker_keeps_no_record_beside_that_of_its_first(tmp_path: Path) -> None:
    """A handler of the first may still be running in a thread, under the same name."""
    held = Held(tmp_path)
    held.start("1.a")
    held.die()
    with pytest.raises(FileExistsError, match="earlier run"):
        Held(tmp_path)
    assert started(held, "1.a") == ["1.a"]


def test_a_record_is_removed_when_no_lease_can_be_good_any_more(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.die()
    for now, is_left in ((1_000.0, True), (1_000.0 + TTL + KEPT, True), (1_091.0, False)):
        with dead_record(held.record.path) as record:
            assert record is not None
            record.tidy(now)
        assert held.record.path.exists() is is_left


def test_two_may_remove_a_record_at_once(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.die()
    with dead_record(held.record.path) as record:
        assert record is not None
        record.tidy(1_000.0)
    with dead_record(held.record.path) as one, dead_record(held.record.path) as other:
        assert one is not None
        assert other is not None
        one.tidy(2_000.0)
        other.tidy(2_000.0)
    assert records(tmp_path) == []


def test_what_is_no_record_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty.starts").touch()
    (tmp_path / "other.starts").write_bytes(b"x" * 10_000)
    (tmp_path / "folder.starts").mkdir()
    (tmp_path / "link.starts").symlink_to(tmp_path / "empty.starts")
    for path in records(tmp_path):
        with dead_record(path) as record:
            assert record is None
    assert len(records(tmp_path)) == 4


def test_a_full_disk_is_noticed_before_anything_is_noted(tmp_path: Path) -> None:
    """Room that is missing later would end the process: the file is mapped into memory."""
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from fencepost.worker.starts import StartRecord\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, {resource.RLIM_INFINITY}))\n"
        "try:\n"
        "    StartRecord(Path(sys.argv[1]), 'w1', slots=1, lease_ttl=30.0, live=list)\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert "File too large" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    """Another user could leave records there, and have attempts uncounted."""
    folder = tmp_path / "run"
    assert runtime_folder({"FENCEPOST_RUNTIME_DIR": str(folder)}) == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    with pytest.raises(PermissionError, match="only user"):
        runtime_folder({"FENCEPOST_RUNTIME_DIR": str(folder)})
    folder.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(PermissionError, match="only user"):
        runtime_folder({"FENCEPOST_RUNTIME_DIR": str(link)})


def test_the_folder_is_where_the_system_keeps_such_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session's folder may be gone, or another user's after ``su``."""
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "gone")}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert runtime_folder(environ) == tmp_path / f"fencepost-{files.user()}"
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert runtime_folder(environ) == tmp_path / "fencepost"
    environ["RUNTIME_DIRECTORY"] = f"{tmp_path / 'unit'}:{tmp_path / 'other'}"
    assert runtime_folder(environ) == tmp_path / "unit"
    environ["FENCEPOST_RUNTIME_DIR"] = str(tmp_path / "given")
    assert runtime_folder(environ) == tmp_path / "given"


def test_lost_leases_of_started_jobs_stay_on_record_for_a_while() -> None:
    """The store may have extended a lease whose worker never heard of it."""
    inflight = InFlight(lost_max=2)
    inflight.lost.extend(["1", "2", "3"])
    assert inflight.started() == ["2", "3"]

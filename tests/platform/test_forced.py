"""The suite's part on SQLite, with every alternative that another system would need.

Each run is a process of its own: workers, children and callers of the tests take part. What these
runs cannot show is how the other systems themselves behave; `docs/platforms.md` says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.thoroughness import IS_FULL

from fencepost.platform.system import FORCED, LINUX, SYSTEMS

ROOT = Path(__file__).parent.parent.parent
OTHERS = sorted(name for name in SYSTEMS if name != LINUX.name)
TIMEOUT = 1_800 if IS_FULL else 110

SQLITE = "tests/store/sqlite"
WHOLE = [
    f"{SQLITE}/test_kills.py",
    f"{SQLITE}/test_group_commit.py",
    f"{SQLITE}/test_lock.py",
    f"{SQLITE}/test_notification.py",
    "tests/worker/test_isolation.py",
    "tests/worker/test_stopping.py",
    "tests/worker/test_supervisor.py",
    "tests/cli/test_worker.py",
]
SHARE = [
    f"{SQLITE}/test_group_commit.py::test_operations_posted_together_share_transactions",
    f"{SQLITE}/test_kills.py::test_kill_9_of_a_producer_loses_nothing_acknowledged[1]",
    f"{SQLITE}/test_lock.py::test_a_waiter_is_granted_the_lock_when_it_is_released",
    f"{SQLITE}/test_notification.py::test_a_submission_in_another_process_wakes_a_listener",
    "tests/worker/test_isolation.py::test_a_child_runs_jobs_and_is_reused",
    "tests/cli/test_worker.py::test_several_processes_share_a_burst",
]
NOT_WINDOWS = [
    "tests/cli/test_worker.py::test_a_process_with_too_much_memory_is_replaced",
    "tests/cli/test_worker.py::test_limits_of_a_process_are_checked_before_it_starts",
    "tests/cli/test_worker.py::test_a_process_in_which_a_thread_does_not_stop_is_replaced[1]",
]
"""What holds on POSIX alone: `--max-rss`, and that a process keeps its id when it is replaced."""


def run(system: str, *words: str) -> None:
    """Run a part of the suite as if on *system*; fail as it fails."""
    environment = os.environ | {FORCED: system}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


@pytest.mark.skipif(IS_FULL, reason="the whole is run")
def test_a_share_of_the_suite_passes_without_what_windows_lacks() -> None:
    """Of the two systems, it lacks more: all that macOS lacks, too."""
    run("windows", *SHARE)


@pytest.mark.skipif(not IS_FULL, reason="takes minutes: FENCEPOST_TEST_FULL=1")
@pytest.mark.timeout(TIMEOUT + 60)
@pytest.mark.parametrize("system", OTHERS)
def test_processes_and_locks_work_without_what_a_system_lacks(system: str) -> None:
    dropped = [f"--deselect={each}" for each in NOT_WINDOWS if not SYSTEMS[system].has_owners]
    run(system, *WHOLE, *dropped)


@pytest.mark.skipif(not IS_FULL, reason="takes minutes: FENCEPOST_TEST_FULL=1")
@pytest.mark.timeout(TIMEOUT + 60)
@pytest.mark.parametrize("system", OTHERS)
def test_the_store_conforms_without_what_a_system_lacks(system: str) -> None:
    run(system, "tests/store/test_conformance.py", "-k", "sqlite")

"""Chaos: the parts of a run, and a short run of it that finds nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import pytest
from tests.worker.support import eventually_sync

from fencepost.core.job.lifecycle import State
from fencepost.store.interface.queue import AlreadySettled, Extended, LeaseLost, Saved, Settled
from lab.chaos import ledger, roster
from lab.chaos.caller import unanswered
from lab.chaos.entries import (
    Acknowledged,
    Asked,
    Doubted,
    Entry,
)
from lab.chaos.faults import FAULTS, STORES, kinds_for
from lab.chaos.nemesis import rounds
from lab.chaos.run import run
from lab.chaos.settings import ROOT
from lab.chaos.writes import Token
from lab.chaos.zombie import tally

LOCKS = Path("/proc/locks")
"""Where Linux says who holds a lock; elsewhere nobody can be caught in a write."""


def test_a_torn_last_line_counts_as_not_written(tmp_path: Path) -> None:
    book = ledger.Ledger(tmp_path, "caller-bulk")
    book.note(Asked(1.0, ["quick/bulk/1"]))
    book.note(Asked(2.0, ["quick/bulk/2"]))
    (path,) = ledger.paths(tmp_path, "caller-")
    follower = ledger.Follower(tmp_path, "caller-")
    path.write_bytes(path.read_bytes()[:-5])
    assert [entry.at for entry in ledger.read(path)] == [1.0]
    assert [entry.at for entry in follower.news()] == [1.0]
    with path.open("ab") as file:
        file.write(b'k/2"]}\n'[-5:])
    assert [entry.at for entry in follower.news()] == [2.0]
    assert list(follower.news()) == []


def test_a_caller_takes_up_what_its_predecessor_had_no_answer_for() -> None:
    lines: list[Entry] = [
        Asked(1.0, ["quick/bulk/1", "quick/bulk/2"]),
        Acknowledged(1.1, ["quick/bulk/1", "quick/bulk/2"], ["a", "b"], 0.1),
        Asked(2.0, ["quick/bulk/3"]),
        Doubted(2.1, ["quick/bulk/3"], 0.1, "cut", is_unknown=True),
        Asked(2.2, ["quick/bulk/3"]),
        Asked(3.0, ["quick/bulk/4"]),
    ]
    assert unanswered(lines) == ([["quick/bulk/3"], ["quick/bulk/4"]], 5)


def test_a_zombie_counts_whatever_is_not_a_refusal_as_accepted() -> None:
    token = Token("job", 1, "secret")
    replies: list[object] = [
        LeaseLost("job"),
        AlreadySettled("job", State.COMPLETED),
        Settled("job", "quick", State.COMPLETED),
        Saved("job"),
        Extended("job", datetime.now(UTC)),
        "nonsense",
    ]
    counted = tally(1.0, [(token, reply) for reply in replies], has_settled=True)
    assert (counted.count, counted.refused, counted.repeated) == (6, 1, 1)
    assert len(counted.accepted) == 4
    own = tally(1.0, [(token, reply) for reply in replies], has_settled=False)
    assert (own.repeated, len(own.accepted)) == (0, 5), "it has settled nothing to repeat"


def test_there_are_at_least_twelve_kinds_on_each_store_and_each_has_its_turn() -> None:
    for store in STORES:
        kinds = kinds_for(store)
        assert len(kinds) >= 12
        drawn = rounds(kinds, Random(1))
        first = [next(drawn) for _ in kinds]
        assert sorted(fault.name for fault, _ in first) == sorted(kinds)
        assert all(is_first for _, is_first in first)
        assert not next(drawn)[1]
    assert all(fault.strike.__doc__ for fault in FAULTS.values())


@pytest.mark.skipif(not LOCKS.exists(), reason="only /proc tells when a process was born")
def test_a_process_is_known_by_its_number_and_its_birth(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    roster.enrol(tmp_path, sleeper.pid)
    with (tmp_path / roster.NAME).open("a") as file:
        file.write(f"{os.getpid()} 12345\n")  # our number, but another's birth
    assert roster.survivors(tmp_path) == [sleeper.pid]
    assert roster.end_survivors(tmp_path) == [sleeper.pid]
    assert sleeper.wait() == -signal.SIGKILL
    assert roster.survivors(tmp_path) == []
    assert sleeper.stdin is not None
    sleeper.stdin.close()


# A share of the real thing. How long it takes depends on the machine; what must hold does not.

SHARES = {
    "sqlite": (
        "kill_worker,kill_caller,stop_worker,crash_in_recovery,kill_in_write,stop_in_write,"
        "disk_full"
    ),
    "postgres": (
        "kill_worker,kill_server,cut_request,cut_before,cut_within,cut_after,black_hole,"
        "idle_in_transaction"
    ),
    "redis": ("kill_server,cut_before,cut_within,forgotten_scripts,out_of_memory,slow_script"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_nothing_is_lost_or_written_by_a_stale_lease_whatever_happens(
    store: str, request: pytest.FixtureRequest
) -> None:
    if store == "redis":
        request.getfixturevalue("redis_url")  # or it is skipped
    kinds = SHARES[store].split(",")
    if not LOCKS.exists():
        kinds = [kind for kind in kinds if not kind.endswith("_in_write")]
    found = run(
        store=store,
        seconds=0,
        kinds=kinds,
        seed=4,
        rate=60 if store == "redis" else 120,  # its settlements take more of the processor
        workers=2,
        pause=0.2,
    )
    assert found.violations == [], f"see {found.ledgers}"
    assert found.skipped == {}
    assert sorted(found.injected) == sorted(kinds)
    assert found.acknowledged > 100
    assert found.stale_tried > 100
    assert found.stale_accepted == 0


@pytest.mark.skipif(not LOCKS.exists(), reason="only /proc tells when a process was born")
@pytest.mark.timeout(120)
def test_an_interrupted_run_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lab.chaos", "--seconds", "600", "--kinds", "stop_worker"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    runner = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
        # A suite that a shell runs in the background ignores interrupts, and so would its children.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    (place,) = eventually_sync(lambda: list(tmp_path.glob("fencepost-chaos-*")), "a run")
    eventually_sync(lambda: len(roster.survivors(place)) >= 5, "processes")
    runner.send_signal(signal.SIGINT)
    assert runner.wait(60) == 130
    eventually_sync(lambda: roster.survivors(place) == [], "the end of every process")
    assert not (place / "disk").is_mount()

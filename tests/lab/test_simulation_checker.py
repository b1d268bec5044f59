"""The checker can fail: for each of its rules there is a history that breaks that rule alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lab.simulation
from lab.simulation.checker import check
from lab.simulation.history import (
    Acknowledged,
    Asked,
    Defect,
    Ended,
    Event,
    Healed,
    Limited,
    Operated,
    Snapshot,
    Started,
    Turn,
    Wrote,
)

NEW = Snapshot("j", "t", "q", "scheduled", 0, 3, 0, expires_at=10**15)
LEASED = msgspec.structs.replace(
    NEW,
    state="running",
    attempt=1,
    version=1_000_000,
    token="T",
    worker="worker-0",
    ends_at=6_000_000,
)
DONE = msgspec.structs.replace(
    LEASED, state="completed", token=None, worker=None, ends_at=None, settled_token="T"
)


def but(job: Snapshot, **changes: Any) -> Snapshot:
    return msgspec.structs.replace(job, **changes)


def op(at: float, name: str, *changes: Snapshot, asked: Sequence[Asked] = ()) -> Operated:
    now = round(at * 1_000_000)
    return Operated(at, now, "worker-0", name, False, tuple(asked), tuple(changes))


def settle(at: float, *changes: Snapshot, event: str = "SUCCEED", **fields: str) -> Operated:
    asked = {"job_id": "j", "token": "T", "answer": "Settled", "event": event, **fields}
    return op(at, "settle", *changes, asked=[Asked(**asked)])


BOOTED = Turn(0.0, "worker-0", "booted")
ENQUEUED = op(0.5, "enqueue", NEW)
CLAIMED = op(1.0, "claim", LEASED)
STARTED = Started(1.0, "worker-0", "j", "T", 1_000_000)
RETURNED = Ended(2.0, "worker-0", "j", "T", "returned")
RUN: list[Event] = [BOOTED, ENQUEUED, CLAIMED, STARTED, RETURNED]
WELL: list[Event] = [*RUN, settle(2.0, DONE)]
WAITING = but(LEASED, state="retrying", token=None, worker=None, ends_at=None)

PENDING = but(NEW, state="pending", mode="all", awaited=("k",))


def test_a_good_history_breaks_nothing() -> None:
    end: list[Event] = [
        Acknowledged(0.6, "caller-0", "j"),
        settle(3.0, answer="AlreadySettled"),
        settle(3.1, answer="LeaseLost completed", token="older"),
        Healed(4.0),
        Turn(5.0, "worker-0", "terminated"),
        Turn(6.0, "worker-0", "ended"),
    ]
    verdict = check([*WELL, *end], concurrency=2)
    assert verdict.violations == []
    assert (verdict.acknowledged, verdict.lost, verdict.settled) == (1, 0, 1)
    assert verdict.stale_refused == 1


BROKEN: dict[str, list[Event]] = {
    "lost": [*WELL, Acknowledged(3.0, "caller-0", "another")],
    "unfinished": [BOOTED, ENQUEUED],
    "overlap": [
        *RUN,
        op(3.0, "recover", WAITING),
        op(3.1, "cancel", but(WAITING, state="cancelled")),
    ],
    "stale write": [*RUN, settle(7.0, DONE)],
    "unwritten": [*RUN, settle(2.0), settle(2.0, DONE, token="T")],
    "valid lease refused": [*RUN, settle(2.0, answer="LeaseLost running"), settle(2.0, DONE)],
    "never settled": [*WELL, settle(3.0, answer="AlreadySettled", token="older")],
    "illegal change": [*WELL, op(3.0, "edit", but(DONE, attempt=2))],
    "lease shortened": [
        *RUN,
        op(
            2.0,
            "heartbeat",
            but(LEASED, ends_at=5_000_000),
            asked=[Asked("j", "T", "Extended")],
        ),
        settle(2.0, DONE),
    ],
    "settled twice": [*WELL, settle(3.0, DONE)],
    "phantom": [BOOTED, ENQUEUED, CLAIMED, settle(2.0, DONE)],
    "attempts": [*RUN, settle(2.0, but(DONE, attempt=0))],
    "illegal transition": [
        *WELL,
        op(3.0, "claim", but(DONE, state="scheduled")),
        op(3.1, "cancel", but(DONE, state="cancelled")),
    ],
    "too early": [
        op(0.5, "enqueue", but(NEW, job_id="k"), PENDING),
        op(0.6, "settle", but(PENDING, state="scheduled")),
        op(0.7, "cancel", but(NEW, job_id="k", state="cancelled")),
        op(0.7, "cancel", but(PENDING, state="cancelled")),
    ],
    "forgotten": [
        op(0.5, "enqueue", but(NEW, job_id="k"), PENDING),
        op(0.7, "cancel", but(NEW, job_id="k", state="cancelled")),
    ],
    "live job removed": [BOOTED, ENQUEUED, op(2.0, "prune", but(NEW, is_removed=True))],
    "token reused": [
        *RUN,
        op(7.0, "recover", WAITING),
        op(7.1, "promote", but(WAITING, state="scheduled")),
        op(7.2, "claim", but(LEASED, attempt=2, version=7_200_000, ends_at=9_000_000)),
        op(7.3, "cancel", but(WAITING, state="cancelled", attempt=2, version=7_200_000)),
    ],
    "version": [
        BOOTED,
        ENQUEUED,
        op(1.0, "claim", but(LEASED, version=2)),
        op(1.1, "cancel", but(WAITING, state="cancelled", version=2)),
    ],
    "key": [
        op(0.5, "enqueue", but(DONE, state="scheduled", key="k", attempt=0)),
        op(0.6, "enqueue", but(NEW, job_id="k2", key="k")),
        op(
            0.7,
            "cancel",
            but(NEW, job_id="k2", key="k", state="cancelled"),
            but(DONE, state="cancelled", key="k", attempt=0),
        ),
    ],
    "limit": [
        BOOTED,
        Limited(0.1, "q", 1),
        op(0.5, "enqueue", NEW, but(NEW, job_id="k")),
        op(1.0, "claim", LEASED, but(LEASED, job_id="k", token="U")),
        op(
            1.1,
            "cancel",
            but(WAITING, state="cancelled"),
            but(WAITING, job_id="k", state="cancelled"),
        ),
    ],
    "recovery": [
        Turn(0.0, "worker-1", "booted"),
        BOOTED,
        ENQUEUED,
        op(1.0, "claim", but(LEASED, ends_at=8_000_000)),
        op(9.9, "recover", WAITING),
        op(9.9, "cancel", but(WAITING, state="cancelled")),
    ],
    "not interrupted": [
        *RUN[:-1],
        op(6.1, "recover", WAITING),
        op(6.2, "cancel", but(WAITING, state="cancelled")),
        Ended(9.0, "worker-0", "j", "T", "returned"),
    ],
    "did not stop": [*WELL, Healed(4.0), Turn(5.0, "worker-0", "terminated")],
    "ended by itself": [*WELL, Turn(5.0, "worker-0", "ended")],
    "defect": [*WELL, Defect(3.0, "worker-0 died")],
    "fence": [*WELL, Wrote(3.0, "p", "j", 2, True, True), Wrote(3.1, "p", "j", 1, True, True)],
    "unclaimed": [
        *WELL,
        Started(3.0, "worker-0", "j", "X", 1_000_001),
        Ended(3.0, "worker-0", "j", "X", ""),
    ],
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_found(rule: str) -> None:
    broken = {violation.rule for violation in check(BROKEN[rule], concurrency=2).violations}
    assert rule in broken
    others = {"illegal transition", "illegal change", "stale write", "unfinished", "attempts"}
    assert broken - {rule} <= others, "what is said is to the point"


def test_every_rule_is_tried_here() -> None:
    folder = Path(lab.simulation.__file__).parent
    text = "".join(
        (folder / f"{name}.py").read_text()
        for name in ("store_rules", "graphs", "time_rules", "checker")
    )
    assert set(re.findall(r'accuse\(\s*"([a-z ]+)"', text)) == set(BROKEN)


def test_a_stale_lease_may_not_spawn() -> None:
    """S1-63: what was refused must have left no trace; what was accepted had a valid lease."""
    asked = [Asked("j", "T", "LeaseLost running")]
    spawned = op(7.0, "spawn", but(NEW, job_id="k", state="cancelled"), asked=asked)
    accepted = op(7.0, "spawn", asked=[Asked("j", "T", "Spawned")])
    refused = op(2.0, "spawn", asked=asked)
    for event, rule in (
        (spawned, "stale write"),
        (accepted, "stale write"),
        (refused, "valid lease refused"),
    ):
        found = {each.rule for each in check([*RUN, event], concurrency=2).violations}
        assert rule in found


def test_those_who_waited_follow_in_the_same_operation() -> None:
    """S1-60: whoever settles the last lets them go."""
    waiting = but(PENDING, job_id="w", awaited=("j",))
    free = but(waiting, state="scheduled")
    events: list[Event] = [BOOTED, op(0.5, "enqueue", NEW, waiting), CLAIMED, STARTED, RETURNED]
    events += [settle(2.0, DONE, free), op(2.1, "cancel", but(free, state="cancelled"))]
    assert check(events, concurrency=2).violations == []


def test_a_worker_whose_driver_has_just_given_up_is_about_to_stop() -> None:
    """It may take up to a minute until a driver does, and then the run is nearly over."""
    events = [*WELL, Turn(3.0, "worker-0", "cut off"), Healed(4.0)]
    events += [Turn(5.0, "worker-0", "terminated"), Turn(60.0, "worker-0", "connected")]
    assert check(events, concurrency=2).violations == []
    late = {each.rule for each in check([*events, Healed(80.0)], concurrency=2).violations}
    assert late == {"did not stop"}


def test_a_lease_need_not_be_taken_back_while_nobody_is_well() -> None:
    stopped = [event for event in BROKEN["recovery"] if event.at < 2.0]
    stopped += [Turn(3.0, name, "stopped") for name in ("worker-0", "worker-1")]
    stopped += [event for event in BROKEN["recovery"] if event.at > 2.0]
    assert check(stopped, concurrency=2).violations == []


def test_a_stopped_process_cannot_interrupt_its_handlers() -> None:
    events = [event for event in BROKEN["not interrupted"] if event.at < 6.0]
    events += [Turn(5.0, "worker-0", "stopped")]
    events += [event for event in BROKEN["not interrupted"] if 6.0 < event.at < 9.0]
    events += [Turn(8.9, "worker-0", "continued"), Ended(9.0, "worker-0", "j", "T", "interrupted")]
    assert check(events, concurrency=2).violations == []

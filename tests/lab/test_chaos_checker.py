"""The checker of chaos: what is as it should be passes, and every rule can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.chaos.checker import RULES, check
from lab.chaos.dump import Record, Run
from lab.chaos.entries import (
    Acknowledged,
    Asked,
    Calm,
    Doubted,
    Ended,
    Kept,
    Killed,
    Stalled,
    Started,
    Stopped,
    Struck,
    Taken,
    Tried,
    Up,
)
from lab.chaos.evidence import Evidence
from lab.chaos.recovery import percentile, recoveries
from lab.chaos.tasks import EVENT_TYPES, RATE
from lab.chaos.windows import Windows

TTL = 1.5
WORKER, OTHER = "worker-1", "worker-2"
PID, OTHER_PID = 101, 102


def run_of(
    version: int, began: float, ended: float, outcome: str = "succeeded", **more: object
) -> Run:
    given: dict[str, object] = {"number": version, "worker": WORKER, **more}
    return Run(
        version=version,
        number=int(str(given["number"])),
        worker=str(given["worker"]),
        outcome=outcome,
        began=began,
        ended=ended,
        code=None if given.get("code") is None else str(given["code"]),
    )


def expired(version: int, began: float, ended: float, **more: object) -> Run:
    return run_of(version, began, ended, "failed", code="lease_expired", **more)


def record(number: int, *runs: Run, **changes: Any) -> Record:
    """Return a job that was completed by the last of its runs."""
    fields: dict[str, object] = {
        "id": f"job-{number}",
        "type": "quick",
        "queue": "default",
        "key": f"quick/bulk/{number}",
        "state": "completed",
        "version": len(runs),
        "attempt": len(runs),
        "max_attempts": 5,
        "created_at": 10.0,
        "completed_at": runs[-1].ended if runs else 20.0,
        "result": str(len(runs)),
        "runs": runs,
        **changes,
    }
    return Record(**fields)  # type: ignore[arg-type]  # tests spell out what they mean


def started(number: int, version: int, at: float, *, token: str = "") -> Started:
    token = token or f"token-{number}-{version}"
    return Started(at, f"job-{number}", "quick", version, version, token, PID)


def evidence(*records: Record, **changes: object) -> Evidence:
    """Return what a run without a fault leaves behind."""
    found = Evidence(TTL)
    found.records = list(records)
    found.add(Up(1.0, WORKER, PID, "/code"))
    found.add(Up(1.0, OTHER, OTHER_PID, "/code"))
    found.add(Calm(100.0))
    for each in records:
        key = str(each.key) if each.key else f"{each.type}/herald/{each.id}"
        if each.type == "quick" or each.type in EVENT_TYPES:
            found.add(Asked(9.0, [key]))
            found.add(Acknowledged(10.0, [key], [each.id], 0.1))
        found.counts[each.state] = found.counts.get(each.state, 0) + 1
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def rules_broken(found: Evidence) -> set[str]:
    return {violation.rule for violation in check(found)}


FOLLOWING: dict[str, Any] = {
    "state": "failed",
    "result": None,
    "mode": "all",
    "failed_dependency": "job-7",
    "completed_at": 23.1,
}
"""A job that ended with another."""
KEYED: dict[str, Any] = {"concurrency_key": "7"}


def clean() -> Evidence:
    """Return a run with a kill, a stop, a failure and a release, all as they should be."""
    found = evidence(
        record(1, run_of(1, 11.0, 11.5)),
        record(2, expired(1, 11.0, 13.0), run_of(2, 13.2, 13.5)),
        record(
            3,
            run_of(1, 11.0, 11.2, "failed"),
            run_of(2, 11.3, 11.4, "released"),
            run_of(3, 11.5, 11.6, number=2),
        ),
        record(4, expired(1, 20.0, 22.0, worker=OTHER), run_of(2, 22.1, 22.2)),
        record(6, run_of(1, 13.5, 13.6), awaited=("job-1", "job-2"), mode="all"),
        record(7, run_of(1, 23.0, 23.1, "failed"), state="failed", result=None),
        record(8, **FOLLOWING, awaited=("job-7",)),
        record(19, **FOLLOWING, awaited=("job-4", "job-8")),
        *(record(20 + n, run_of(1, 11.0, 11.5), **KEYED) for n in range(2)),
        record(22, run_of(1, 11.5, 11.9), **KEYED),
        record(23, run_of(1, 11.0, 11.5), type="billing", key=None),
        record(24, run_of(1, 11.0, 11.5), type="shipping", key=None),
        record(25, run_of(1, 11.0, 11.5), type="tick", key="cron:tick:11"),
        record(26, run_of(1, 11.0, 11.5), has_callback=True),
        record(27, run_of(1, 11.5, 11.9), type="fencepost.webhook", key=None, about="job-26"),
    )
    found.add(Ended(23.1, "job-7", 1, "raised"))
    found.add(Killed(11.8, PID, "worker"))
    found.add(Stopped(20.5, OTHER_PID, "worker", 23.0))
    found.add(Ended(11.1, "job-3", 1, "raised"))
    for each in (started(1, 1, 11.1), started(2, 1, 11.1), started(2, 2, 13.3)):
        found.add(each)
    found.add(Tried(30.0, 9, 6, 3, []))
    return found


def test_a_run_as_it_should_be_breaks_no_rule() -> None:
    assert check(clean()) == []


def acknowledged_and_gone(found: Evidence) -> None:
    found.add(Acknowledged(12.0, ["quick/bulk/9"], ["job-9"], 0.1))


def acknowledged_as_another(found: Evidence) -> None:
    found.add(Acknowledged(12.0, ["failing/bulk/9"], ["job-1"], 0.1))


def one_key_twice(found: Evidence) -> None:
    replace(found, record(5, run_of(1, 11.0, 11.5), key="quick/bulk/1"))


def asked_by_nobody(found: Evidence) -> None:
    replace(found, record(5, run_of(1, 11.0, 11.5), key="quick/bulk/77"))


def one_key_two_answers(found: Evidence) -> None:
    found.add(Acknowledged(12.0, ["quick/bulk/1"], ["job-2"], 0.1))


def still_running(found: Evidence) -> None:
    replace(found, record(1, run_of(1, 11.0, 11.5, "running"), state="running", result=None))


def ended_too_late(found: Evidence) -> None:
    replace(found, record(1, run_of(1, 11.0, 11.5), completed_at=900.0))


def never_calm(found: Evidence) -> None:
    found.calm_at = None


def two_leases_at_once(found: Evidence) -> None:
    replace(found, record(2, expired(1, 11.0, 13.3), run_of(2, 13.2, 13.5)))


def a_lease_taken_back_early(found: Evidence) -> None:
    replace(found, record(2, expired(1, 11.0, 12.4), run_of(2, 13.2, 13.5)))


def a_handler_before_its_lease(found: Evidence) -> None:
    found.started["job-2", 2] = [started(2, 2, 12.5)]


def one_lease_run_twice(found: Evidence) -> None:
    found.add(started(1, 1, 11.2, token="another"))


def one_token_twice(found: Evidence) -> None:
    found.started["job-2", 2] = [started(2, 2, 13.3, token="token-2-1")]


def a_lease_nobody_gave(found: Evidence) -> None:
    found.add(started(1, 2, 12.0))


def two_successes(found: Evidence) -> None:
    replace(found, record(2, run_of(1, 11.0, 13.0), run_of(2, 13.2, 13.5)))


def result_of_a_stale_lease(found: Evidence) -> None:
    replace(found, record(2, expired(1, 11.0, 13.0), run_of(2, 13.2, 13.5), result="1"))


def completed_without_success(found: Evidence) -> None:
    replace(found, record(1, run_of(1, 11.0, 11.5, "failed")))


def stale_write_accepted(found: Evidence) -> None:
    found.add(Tried(30.0, 1, 0, 0, ["Settled for job-1"]))


def stale_mark_found(found: Evidence) -> None:
    replace(found, record(1, run_of(1, 11.0, 11.5), checkpoint='"zombie"'))


def checkpoint_gone(found: Evidence) -> None:
    found.add(Kept(11.2, "job-2", 1, 3))


def a_lease_left_out(found: Evidence) -> None:
    replace(found, record(1, run_of(1, 11.0, 11.5), version=2))


def a_version_twice(found: Evidence) -> None:
    found.add(Taken(11.2, "job-1", 1, "another", "zombie", 12.0))


def a_version_that_fell(found: Evidence) -> None:
    found.add(started(9, 8, 11.0))
    found.add(started(9, 7, 16.1))


def a_state_out_of_nowhere(found: Evidence) -> None:
    replace(found, record(1, run_of(1, 11.0, 11.5, "released"), result=None, state="delayed"))


def an_attempt_not_counted(found: Evidence) -> None:
    replace(found, record(2, expired(1, 11.0, 13.0), run_of(2, 13.2, 13.5, number=1)))


def too_many_attempts(found: Evidence) -> None:
    runs = (expired(1, 11.0, 13.0), run_of(2, 13.2, 13.5))
    replace(found, record(2, *runs, max_attempts=1))


def released_though_it_had_started(found: Evidence) -> None:
    runs = (run_of(1, 11.0, 12.5, "released"), run_of(2, 13.2, 13.5, number=1))
    replace(found, record(2, *runs))


def lost_without_a_reason(found: Evidence) -> None:
    replace(found, record(2, expired(1, 14.0, 16.0), run_of(2, 16.1, 16.2)))


def failed_without_an_error(found: Evidence) -> None:
    found.raised.clear()


def out_of_line(found: Evidence) -> None:
    for number, began in ((6, 13.0), (7, 12.0)):
        replace(found, record(number, run_of(1, began, 13.5), queue="ordered"))


def started_out_of_line(found: Evidence) -> None:
    for number, at in ((6, 13.3), (7, 13.2)):
        replace(found, record(number, run_of(1, 13.0, 13.5), queue="ordered"))
        found.add(started(number, 1, at))


def a_third_of_two(found: Evidence) -> None:
    replace(found, record(22, run_of(1, 11.2, 11.9), **KEYED))


def one_start_too_many(found: Evidence) -> None:
    for number in range(RATE + 1):
        began = 11.0 + number / (RATE + 5)
        found.records.append(record(100 + number, run_of(1, began, 13.0), type="rated"))


def one_handler_alone(found: Evidence) -> None:
    found.records = [each for each in found.records if each.type != "shipping"]


def two_jobs_of_a_tick(found: Evidence) -> None:
    found.records.append(record(28, run_of(1, 11.0, 11.5), type="tick", key="cron:tick:11"))


def an_end_without_a_webhook(found: Evidence) -> None:
    found.records = [each for each in found.records if each.about is None]


def an_end_with_two_webhooks(found: Evidence) -> None:
    more = {"type": "fencepost.webhook", "key": None, "about": "job-26"}
    found.records.append(record(28, run_of(1, 11.0, 11.5), **more))


def a_torn_page(found: Evidence) -> None:
    found.integrity = "row 3 missing from index"


def a_wrong_count(found: Evidence) -> None:
    found.counts = {"completed": 5}


def replace(found: Evidence, new: Record) -> None:
    """Put a job in the place of the one of its id, or at the end; all else stays as it was told."""
    others = [each for each in found.records if each.id != new.id]
    found.records = sorted([*others, new], key=lambda each: each.id)
    if new.key != "quick/bulk/77":
        found.asked.add(str(new.key))
    found.counts = {}
    for each in found.records:
        found.counts[each.state] = found.counts.get(each.state, 0) + 1


def claimed_before_it_was_let_go(found: Evidence) -> None:
    replace(found, record(6, run_of(1, 12.4, 13.6), awaited=("job-1", "job-2"), mode="all"))


def run_before_it_was_let_go(found: Evidence) -> None:
    found.add(started(6, 1, 13.3))


def run_behind_a_failure(found: Evidence) -> None:
    replace(found, record(6, run_of(1, 33.4, 33.6), awaited=("job-1", "job-7"), mode="all"))


def waiting_in_vain(found: Evidence) -> None:
    replace(found, record(6, state="pending", completed_at=None, awaited=("job-1",), mode="all"))


def ended_for_a_stranger(found: Evidence) -> None:
    replace(found, record(19, **FOLLOWING, awaited=("job-4",)))


def ended_otherwise_than_its_dependency(found: Evidence) -> None:
    replace(found, record(19, **{**FOLLOWING, "state": "cancelled"}, awaited=("job-8",)))


def ran_and_ended_for_another(found: Evidence) -> None:
    replace(found, record(19, run_of(1, 23.0, 23.1, "failed"), **FOLLOWING, awaited=("job-8",)))


def test_one_that_accepts_failures_runs_behind_them() -> None:
    """C28: once all have ended, however they did."""
    found = clean()
    replace(found, record(6, run_of(1, 33.4, 33.6), awaited=("job-1", "job-7"), mode="ended"))
    assert check(found) == []


BREAKS: list[tuple[str, Callable[[Evidence], None]]] = [
    ("lost", acknowledged_and_gone),
    ("lost", acknowledged_as_another),
    ("one_job_a_key", one_key_twice),
    ("one_job_a_key", asked_by_nobody),
    ("one_job_a_key", one_key_two_answers),
    ("unfinished", still_running),
    ("unfinished", ended_too_late),
    ("unfinished", never_calm),
    ("overlapping", two_leases_at_once),
    ("overlapping", a_handler_before_its_lease),
    ("cut_short", a_lease_taken_back_early),
    ("one_run_a_lease", one_lease_run_twice),
    ("one_run_a_lease", one_token_twice),
    ("one_run_a_lease", a_lease_nobody_gave),
    ("fence", one_lease_run_twice),
    ("fence", a_version_twice),
    ("fence", a_version_that_fell),
    ("settled_once", two_successes),
    ("settled_once", result_of_a_stale_lease),
    ("settled_once", completed_without_success),
    ("stale_accepted", stale_write_accepted),
    ("stale_accepted", stale_mark_found),
    ("checkpoint_lost", checkpoint_gone),
    ("legal", a_lease_left_out),
    ("legal", a_state_out_of_nowhere),
    ("attempts_bounded", an_attempt_not_counted),
    ("attempts_bounded", too_many_attempts),
    ("uncounted", released_though_it_had_started),
    ("unexplained", lost_without_a_reason),
    ("unexplained", failed_without_an_error),
    ("ordered", out_of_line),
    ("ordered", started_out_of_line),
    ("too_early", claimed_before_it_was_let_go),
    ("too_early", run_before_it_was_let_go),
    ("too_early", run_behind_a_failure),
    ("forgotten", waiting_in_vain),
    ("unjust", ended_for_a_stranger),
    ("unjust", ended_otherwise_than_its_dependency),
    ("unjust", ran_and_ended_for_another),
    ("crowded", a_third_of_two),
    ("too_often", one_start_too_many),
    ("half_sent", one_handler_alone),
    ("ticked_twice", two_jobs_of_a_tick),
    ("untold", an_end_without_a_webhook),
    ("untold", an_end_with_two_webhooks),
    ("intact", a_torn_page),
    ("intact", a_wrong_count),
]


@pytest.mark.parametrize(("rule", "spoil"), BREAKS, ids=[each.__name__ for _, each in BREAKS])
def test_each_rule_fails_when_its_promise_is_broken(
    rule: str, spoil: Callable[[Evidence], None]
) -> None:
    found = clean()
    spoil(found)
    assert rule in rules_broken(found)


def test_every_rule_has_a_test_that_breaks_it() -> None:
    assert {rule for rule, _ in BREAKS} == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    "reason",
    [
        Killed(15.0, PID, "worker"),
        Stopped(13.9, PID, "worker", 15.0),
        Stalled(15.0, PID, 1.0),
        Struck(14.5, "kill_server", 15.0, is_wide=True),
        Taken(14.0, "job-2", 1, "token", "zombie", 15.5),
        Doubted(15.0, ["quick/bulk/1"], 1.0, "slow", is_unknown=True),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_lost_lease_is_explained_by_what_happened_to_its_worker_or_to_the_store(
    reason: Killed | Stopped | Stalled | Struck | Taken | Doubted,
) -> None:
    found = clean()
    found.killed.clear()
    replace(found, record(2, expired(1, 14.0, 16.0), run_of(2, 16.1, 16.2)))
    assert "unexplained" in rules_broken(found)
    found.add(reason)
    assert "unexplained" not in rules_broken(found)


def test_the_fate_of_another_process_explains_nothing() -> None:
    found = clean()
    lost_without_a_reason(found)
    found.add(Killed(15.0, OTHER_PID, "worker"))
    found.add(Struck(14.5, "kill_worker", 15.0, is_wide=False))
    assert "unexplained" in rules_broken(found)


def test_a_server_that_died_may_forget_a_lease_but_gives_out_no_version_again() -> None:
    """C43."""
    found = clean()
    found.add(started(1, 0, 10.9))
    assert rules_broken(found) == {"one_run_a_lease"}
    found.add(Struck(11.15, "kill_server", 11.18, is_wide=True))
    assert "one_run_a_lease" in rules_broken(found), "a file forgets nothing"
    found.is_server = True
    assert rules_broken(found) == set()
    one_lease_run_twice(found)
    assert rules_broken(found) == {"one_run_a_lease", "fence"}


def test_a_handler_may_start_late_behind_one_of_a_later_lease() -> None:
    found = clean()
    found.add(Taken(11.05, "job-1", 0, "early", "zombie", 12.0))
    found.add(Taken(13.0, "job-2", 0, "early", "zombie", 13.1))
    assert check(found) == []


def test_recovery_is_measured_from_the_kill_to_the_next_start_while_the_store_is_well() -> None:
    found = clean()
    assert recoveries(found) == pytest.approx([13.3 - 11.8])
    found.add(Struck(12.0, "delay", 12.5, is_wide=True))
    assert recoveries(found) == []


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) is None


def test_windows_are_merged_and_touched_at_their_edges() -> None:
    windows = Windows([(5.0, 6.0), (1.0, 2.0), (1.5, 3.0)])
    assert windows.spans == [(1.0, 3.0), (5.0, 6.0)]
    assert windows.touch(3.0, 4.0)
    assert not windows.touch(3.1, 4.9)
    assert windows.touch(0.0, 10.0)
    assert not Windows([]).touch(0.0, 1.0)

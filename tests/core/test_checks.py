"""What is looked at before a waiting job runs, as a list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.test_why import NOON, RATED, job, worker

from fencepost.core.job.checks import checks
from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.core.job.why import Situation, explain
from fencepost.core.limits.type_limits import TypeUsage

LATER = NOON + timedelta(seconds=5)


def situation(state: State = State.SCHEDULED, **rest: Any) -> Situation:
    about = replace(job(state, run_at=rest.pop("run_at", NOON)), **rest.pop("fields", {}))
    return Situation(job=about, now=NOON, **{"workers": [worker("mail")], **rest})


def unmet(*args: Any, **rest: Any) -> list[str]:
    return [check.code for check in checks(situation(*args, **rest)) if not check.is_met]


def test_a_job_that_nothing_holds_up_meets_all_and_limits_that_are_not_set_are_no_line() -> None:
    found = checks(situation())
    assert all(check.is_met for check in found)
    codes = [check.code for check in found]
    assert codes == ["dependencies", "due", "type_paused", "queue_paused", "workers"]
    assert found[-1].note == "1 of 1 workers"


@pytest.mark.parametrize("state", [State.RUNNING, *sorted(TERMINAL)])
def test_a_job_that_runs_or_has_ended_is_not_looked_at(state: State) -> None:
    assert checks(situation(state)) == []


@pytest.mark.parametrize(
    ("code", "rest"),
    [
        ("type_paused", {"is_type_paused": True}),
        ("queue_paused", {"is_queue_paused": True}),
        ("queue_limit", {"queue_limit": 2, "queue_running": 2}),
        ("app_limit", {"app_limit": 3, "app_running": 4}),
        ("rate", {"limits": RATED, "usage": TypeUsage(rate_opens_at=LATER)}),
        ("workers", {"workers": []}),
        ("workers", {"workers": [worker("mail", queues=["other"])]}),
    ],
)
def test_what_holds_a_job_up_comes_first_and_why_says_so_too(
    code: str, rest: dict[str, Any]
) -> None:
    assert unmet(**rest) == [code]
    assert checks(situation(**rest))[0].code == code
    assert explain(situation(**rest))[0].code not in ("next", "in_line")


def test_room_in_a_limit_is_told_with_its_figures() -> None:
    found = checks(
        situation(queue_limit=3, queue_running=2, app_limit=9, app_running=8, limits=RATED)
    )
    notes = {check.code: check.note for check in found if check.note}
    assert notes["queue_limit"] == "2 of 3"
    assert notes["app_limit"] == "8 of 9"
    assert notes["rate"] == RATED.rate.shown if RATED.rate else ""


def test_a_job_of_later_and_one_that_waits_for_others_say_so() -> None:
    assert unmet(State.DELAYED, run_at=LATER) == ["due"]
    assert unmet(State.PENDING) == ["dependencies"]


def test_a_job_that_only_its_key_holds_waits_for_no_other_job() -> None:
    keyed = {"concurrency_key": "customer"}
    assert unmet(State.PENDING, fields=keyed, key_active=1) == ["key"]
    held = checks(situation(fields=keyed, key_active=1))
    assert [check.note for check in held if check.code == "key"] == ["1 of 1"]
    assert "key" not in [check.code for check in checks(situation(State.RETRYING, fields=keyed))]


def test_a_token_of_some_queues_learns_no_figures_of_others() -> None:
    rest: dict[str, Any] = {"queue_limit": 3, "app_limit": 9, "fields": {"concurrency_key": "k"}}
    shown = [check.without_others for check in checks(situation(**rest))]
    assert {check.code for check in shown if check.note} == {"queue_limit"}

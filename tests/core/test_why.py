"""Why a job is where it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fencepost.core.job.job import Category, Failure, Job, Ownership
from fencepost.core.job.lifecycle import LIVE, TERMINAL, State
from fencepost.core.job.policy import Priority
from fencepost.core.job.why import Reason, Situation, explain
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits, TypeUsage
from fencepost.core.stats.overview import QueueView, WorkerInfo, unserved

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RATED = TypeLimits(rate=Rate(100, 60.0))
FAILURE = Failure(Category.TEMPORARY, "503 from the mail server")


def job(state: State, **fields: Any) -> Job:
    return Job(
        id="j",
        type="mail",
        queue="letters",
        priority=Priority.NORMAL,
        state=state,
        attempt=2,
        max_attempts=3,
        created_at=NOON,
        updated_at=NOON,
        expires_at=NOON + timedelta(days=7),
        **fields,
    )


def worker(*types: str, queues: Sequence[str] | None = None) -> WorkerInfo:
    weights = None if queues is None else dict.fromkeys(queues, 1)
    return WorkerInfo(
        id="w", host="h", pid=1, queues=weights, types=types, concurrency=1, started_at=NOON
    )


def why(state: State, *, now: datetime = NOON, failure: Failure | None = None, **rest: Any) -> Any:
    lease = rest.pop("lease", None)
    run_at = rest.pop("run_at", NOON)
    about = job(state, failure=failure, lease=lease, run_at=run_at)
    return explain(Situation(job=about, now=now, **{"workers": [worker("mail")], **rest}))


@pytest.mark.parametrize(
    ("state", "failure", "text"),
    [
        (State.COMPLETED, None, "completed on attempt 2"),
        (State.CANCELLED, None, "cancelled; `retry` runs it again"),
        (
            *(State.FAILED, FAILURE),
            "failed for good on attempt 2; temporary: 503 from the mail server",
        ),
        (
            *(State.DEAD_LETTER, FAILURE),
            "dead letter after 2 of 3 attempts; temporary: 503 from the mail server",
        ),
        (State.DEAD_LETTER, None, "dead letter after 2 of 3 attempts; no reason stored"),
    ],
)
def test_a_terminal_job_tells_how_it_ended(
    state: State, failure: Failure | None, text: str
) -> None:
    """S3-22, C7."""
    assert why(state, failure=failure) == [Reason(state.value, text)]


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_no_obstacle_matters_to_a_terminal_job(state: State) -> None:
    """C39."""
    assert [r.code for r in why(state, is_type_paused=True, workers=())] == [state.value]


def test_a_running_job_names_its_worker_and_the_rest_of_its_lease() -> None:
    """S0-39, S0-74."""
    lease = Ownership("w1", 4, NOON + timedelta(seconds=20.04), expired=False)
    assert why(State.RUNNING, lease=lease) == [
        Reason("running", "attempt 2 of 3 runs on w1; its lease has 20s left")
    ]


def test_a_running_job_whose_lease_ran_out_says_that_it_will_be_taken_back() -> None:
    """S0-84, C11."""
    (reason,) = why(State.RUNNING, lease=Ownership("w1", 4, NOON, expired=True))
    assert reason.code == "lease_expired"
    assert "worker w1 was lost: its lease ran out at 12:00:00 UTC" in reason.text


def test_a_running_job_of_unknown_owner_is_still_running() -> None:
    """S1-15."""
    assert why(State.RUNNING) == [Reason("running", "attempt 2 is running")]


def test_a_delayed_job_says_until_when() -> None:
    """S1-14."""
    assert why(State.DELAYED, run_at=NOON + timedelta(minutes=90)) == [
        Reason("delayed", "delayed until 2026-01-01 13:30:00 UTC (in 1h30m)")
    ]


def test_a_job_past_its_time_that_nobody_promoted_yet_is_due_now() -> None:
    """S0-19."""
    (reason,) = why(State.DELAYED, now=NOON + timedelta(seconds=5))
    assert reason.text.endswith("(in 0s)")


@pytest.mark.parametrize(
    ("failure", "cause"), [(FAILURE, f" after: {FAILURE.message}"), (None, "")]
)
def test_a_job_that_backs_off_says_why_and_until_when(failure: Failure | None, cause: str) -> None:
    """S1-18, S0-69."""
    assert why(State.RETRYING, failure=failure, run_at=NOON + timedelta(seconds=2)) == [
        Reason(
            "backing_off",
            f"attempt 2 of 3 failed{cause}; tried again at 2026-01-01 12:00:02 UTC (in 2s)",
        )
    ]


OBSTACLES: list[tuple[dict[str, Any], str, str]] = [
    ({"is_type_paused": True}, "type_paused", "`fencepost types resume mail`"),
    ({"is_queue_paused": True}, "queue_paused", "`fencepost queues resume letters`"),
    ({"queue_limit": 3, "queue_running": 3}, "queue_limit", "runs 3 of at most 3 jobs"),
    ({"app_limit": 9, "app_running": 10}, "app_limit", "10 of at most 9 jobs run in all"),
    (
        {"limits": RATED, "usage": TypeUsage(rate_opens_at=NOON + timedelta(seconds=12))},
        "rate_limited",
        "type 'mail' starts at most 100 a minute; the next can start in 12s",
    ),
    (
        {"workers": ()},
        "no_worker",
        "no live worker serves type 'mail' on queue 'letters'; start one",
    ),
]


@pytest.mark.parametrize(("surroundings", "code", "text"), OBSTACLES)
def test_an_obstacle_is_named_with_what_to_do(
    surroundings: dict[str, Any], code: str, text: str
) -> None:
    """S3-19, S2-17, S1-87."""
    (reason,) = why(State.SCHEDULED, **surroundings)
    assert reason.code == code
    assert text in reason.text


NOBODY = "no live worker serves type 'mail' on queue 'letters'; "
UNSERVED: dict[str, tuple[list[WorkerInfo], str]] = {
    "the queue is a typo": (
        [worker("mail", queues=["lettres", "bulk"]), worker("other")],
        "this type is served on queues 'bulk', 'lettres'; this queue is served for type 'other'; "
        "did you mean 'lettres'?",
    ),
    "the type is a typo": (
        [worker("mial", "report", queues=["letters"]), worker("x", queues=["y"])],
        "this queue is served for types 'mial', 'report'; did you mean 'mial'?",
    ),
    "neither name is served": (
        [worker("report", queues=["letter"])],
        "live workers serve queue 'letter', for type 'report'; did you mean 'letter'?",
    ),
    "no name is like it": (
        [worker("mail", queues=list("abcdefg"))],
        "this type is served on queues 'a', 'b', 'c', 'd', 'e' and 2 more; start one with "
        "`fencepost worker APP`",
    ),
    "a worker without types": (
        [worker(queues=["bulk"])],
        "live workers serve queue 'bulk', for no type; start one with `fencepost worker APP`",
    ),
}


@pytest.mark.parametrize(("workers", "text"), UNSERVED.values(), ids=UNSERVED)
def test_what_is_served_instead_is_named_with_the_nearest(
    workers: list[WorkerInfo], text: str
) -> None:
    """S1-87: whether a job is served depends on its type and its queue."""
    assert why(State.SCHEDULED, workers=workers) == [Reason("no_worker", NOBODY + text)]


def test_claimable_jobs_are_held_against_the_workers_pair_by_pair() -> None:
    """S1-87."""
    queues = [
        QueueView(name="bulk", claimable={"mail": 1}),
        QueueView(name="letters", claimable={"report": 2, "mail": 3}),
        QueueView(name="quiet"),
    ]
    workers = [worker("report", queues=["letters"]), worker("mail", queues=["bulk"])]
    (found,) = unserved(queues, workers)
    assert (found.queue, found.type, found.count) == ("letters", "mail", 3)
    assert found.text.startswith(f"3 jobs wait: {NOBODY}")


@pytest.mark.parametrize(
    "surroundings",
    [
        {"queue_limit": 3, "queue_running": 2},
        {"app_limit": 9, "app_running": 8},
        {"queue_running": 5, "app_running": 5},
        {"limits": RATED},
        {"usage": TypeUsage(rate_opens_at=NOON)},
    ],
)
def test_a_limit_that_is_not_reached_is_no_obstacle(surroundings: dict[str, Any]) -> None:
    """S2-17."""
    assert [reason.code for reason in why(State.SCHEDULED, **surroundings)] == ["next"]


def test_all_obstacles_are_named_after_the_time() -> None:
    """S3-19, S2-17."""
    everything = {name: value for case, _, _ in OBSTACLES for name, value in case.items()}
    codes = [code for _, code, _ in OBSTACLES]
    assert [reason.code for reason in why(State.SCHEDULED, **everything)] == codes
    assert [reason.code for reason in why(State.DELAYED, **everything)] == ["delayed", *codes]


@pytest.mark.parametrize(
    ("ahead", "reason"),
    [
        (0, Reason("next", "claimable; it is next in line for its type")),
        (1, Reason("in_line", "claimable; 1 job of its type comes first")),
        (7, Reason("in_line", "claimable; 7 jobs of its type come first")),
    ],
)
def test_a_job_that_nothing_holds_up_stands_in_line(ahead: int, reason: Reason) -> None:
    """S1-13, S1-34."""
    assert why(State.SCHEDULED, jobs_ahead=ahead) == [reason]


def test_workers_that_have_been_silent_are_named() -> None:
    """One that was killed counts as live for a minute."""
    gone = replace(worker("mail"), seen_at=NOON - timedelta(seconds=25))
    (reason,) = why(State.SCHEDULED, workers=[gone])
    assert reason.code == "next"
    assert "but its workers (w) have been silent for 25s: have they died?" in reason.text
    here = replace(worker("mail"), id="w2", seen_at=NOON - timedelta(seconds=12))
    elsewhere = replace(worker("other"), id="w3", seen_at=NOON)
    assert "silent" not in why(State.SCHEDULED, workers=[gone, here])[0].text
    assert "silent" in why(State.SCHEDULED, workers=[gone, elsewhere], jobs_ahead=2)[0].text


@given(
    st.sampled_from(sorted(LIVE | TERMINAL)),
    st.fixed_dictionaries(
        {},
        optional={
            "is_type_paused": st.booleans(),
            "is_queue_paused": st.booleans(),
            "queue_limit": st.none() | st.integers(0, 3),
            "queue_running": st.integers(0, 3),
            "app_limit": st.none() | st.integers(0, 3),
            "app_running": st.integers(0, 3),
            "limits": st.sampled_from((TypeLimits(), RATED)),
            "usage": st.sampled_from((TypeUsage(), TypeUsage(rate_opens_at=NOON))),
            "jobs_ahead": st.integers(0, 3),
            "workers": st.sampled_from(((), (worker("mail"),))),
        },
    ),
)
def test_there_is_always_a_reason_and_never_the_same_twice(
    state: State, surroundings: dict[str, Any]
) -> None:
    """S1-87: whatever the job waits for is reported."""
    codes = [reason.code for reason in why(state, **surroundings)]
    assert codes
    assert len(codes) == len(set(codes))

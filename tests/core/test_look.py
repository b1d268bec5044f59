"""Conditions without an index: which jobs meet them, and which cannot be compared."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_why import NOON
from tests.core.test_why import job as job_in

from fencepost.core.bounds import ERROR_TEXT_LENGTH_MAX, WHERE_LENGTH_MAX, WHERE_MAX
from fencepost.core.filter import JobFilter, JobQuery, make_query
from fencepost.core.job.job import Body, Category, Encoding, Failure, Job
from fencepost.core.job.lifecycle import LIVE, State
from fencepost.core.job.policy import Priority
from fencepost.core.look import WHERE_PATTERN, parse_comparison
from fencepost.errors import ConfigurationError, FencepostError

FAILED = Failure(Category.TEMPORARY, "Host db-7 timed out", "db_down", "app.net.ConnectionLost")


def a_job() -> Job:
    return job_in(State.RETRYING, run_at=NOON)


def meets(job: Job, **conditions: Any) -> bool | None:
    return make_query(**conditions).look.judge(job)


@pytest.mark.parametrize(
    ("error", "is_met"),
    [
        ("timed out", True),
        ("HOST DB-7", True),
        ("ConnectionLost", True),
        ("connectionlost", True),
        ("app.net.ConnectionLost", True),
        ("db_down", True),
        ("temporary", True),
        ("net.ConnectionLost", False),
        ("db_dow", False),
        ("KeyError", False),
    ],
)
def test_an_error_is_a_part_of_the_message_or_a_whole_name(error: str, is_met: bool) -> None:
    assert meets(replace(a_job(), failure=FAILED), error=error) is is_met
    assert meets(a_job(), error=error) is False


def test_a_priority_is_one_of_several() -> None:
    job = replace(a_job(), priority=Priority.HIGH)
    assert meets(job, priority="high")
    assert meets(job, priority=["low", 1])
    assert not meets(job, priority=0)


@pytest.mark.parametrize("encoding", [Encoding.BINARY, Encoding.ENCRYPTED])
@pytest.mark.parametrize("where", ["payload.a=1", "payload.a!=1", "payload<1"])
def test_what_cannot_be_read_is_neither_met_nor_unmet(encoding: Encoding, where: str) -> None:
    job = replace(a_job(), payload_body=Body(b"\xff\x00", encoding))
    assert meets(job, where=where) is None
    assert meets(job, where=[where, "result=1"]) is False
    assert meets(job, where=where, priority="bulk") is False


def test_a_token_of_some_queues_learns_nothing_of_other_jobs() -> None:
    failure = replace(FAILED, failed_dependency="3f2a", message="job 3f2a of type pay failed")
    job = replace(a_job(), failure=failure)
    for conditions in ({"error": "pay"}, {"where": "failure.failed_dependency=3f2a"}):
        look = make_query(**conditions).look  # type: ignore[arg-type]  # as the table says
        assert look.judge(job)
        assert not replace(look, withholds_dependency=True).judge(job)


@pytest.mark.parametrize(
    "conditions",
    [
        {"priority": 5},
        {"priority": "urgent"},
        {"priority": [True]},
        {"priority": [None]},
        {"key": ""},
        {"key": "a\0"},
        {"error": ""},
        {"error": "x" * (ERROR_TEXT_LENGTH_MAX + 1)},
        {"error": 5},
        {"where": "tags.a=1"},
        {"where": ""},
        {"where": 5},
        {"where": "payload.a=" + "1" * WHERE_LENGTH_MAX},
        {"where": ["payload.a=1"] * (WHERE_MAX + 1)},
    ],
    ids=lambda conditions: str(conditions)[:30],
)
def test_a_condition_that_makes_no_sense_is_refused(conditions: dict[str, Any]) -> None:
    with pytest.raises(FencepostError):
        make_query(**conditions)


@given(st.from_regex(WHERE_PATTERN).filter(lambda text: len(text) <= WHERE_LENGTH_MAX))
def test_the_documented_pattern_is_what_is_accepted(text: str) -> None:
    condition = parse_comparison(text)
    assert parse_comparison(str(condition)) == condition


@given(st.text("payload.=!<> 1", max_size=12))
def test_what_the_pattern_refuses_is_refused(text: str) -> None:
    if re.search(WHERE_PATTERN, text):
        parse_comparison(text)
    else:
        with pytest.raises(ConfigurationError):
            parse_comparison(text)


def test_a_query_is_narrowed_to_states() -> None:
    query = make_query(state=["failed", "running"], error="k")
    live = query.within(LIVE)
    assert live is not None
    assert (live.filter.states, live.look) == ((State.RUNNING,), query.look)
    assert make_query(state="completed").within(LIVE) is None
    every = JobQuery(JobFilter()).within(LIVE)
    assert every is not None
    assert set(every.filter.states) == LIVE


@pytest.mark.parametrize(
    ("part", "is_met"),
    [
        *[("0", True), ("2", True), ("3", False), ("02", False)],
        *[("-1", False), ("x", False), ("\N{ARABIC-INDIC DIGIT TWO}", False), ("9" * 300, False)],
    ],
)
def test_an_item_of_a_list_is_named_by_its_number(part: str, is_met: bool) -> None:
    """By itself, without a look at the others: a list may have half a million."""
    assert parse_comparison(f"payload.a.{part}=7").is_met({"a": [7, 7, 7]}) is is_met

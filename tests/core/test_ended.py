"""Following the ends of jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.job.lifecycle import State
from fencepost.core.stats import statistics as module
from fencepost.core.stats.statistics import OVERLAP, EndedJob, Follower

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float, number: int = 0) -> EndedJob:
    completed_at = START + timedelta(seconds=seconds)
    return EndedJob(
        id=str(number),
        type="mail",
        queue="default",
        state=State.COMPLETED,
        attempt=1,
        created_at=START,
        scheduled_at=START,
        started_at=START,
        completed_at=completed_at,
        position=round(seconds * 1_000) * 1_000 + number,
    )


def test_an_end_is_told_once_however_often_it_is_read() -> None:
    follower = Follower(START)
    assert follower.take([at(1), at(2)]) == [at(1), at(2)]
    assert follower.take([at(1), at(2), at(3)]) == [at(3)]
    assert follower.take([]) == []


def test_reading_goes_back_by_the_overlap_and_never_before_the_calendar() -> None:
    follower = Follower(START)
    assert follower.since == START - OVERLAP
    follower.take([at(60)])
    assert follower.since == START + timedelta(seconds=60) - OVERLAP
    follower.take([at(58)])
    assert follower.since == START + timedelta(seconds=60) - OVERLAP
    first = datetime.min.replace(tzinfo=UTC)
    assert Follower(first).since == first


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, OVERLAP.total_seconds() - 0.01))),
    st.lists(st.floats(0, 110), min_size=1),
)
def test_whatever_commits_within_the_overlap_is_told_exactly_once(
    ends: list[tuple[float, float]], looks: list[float]
) -> None:
    """Each ends at a time and is seen some time later; a reader looks now and then."""
    follower = Follower(START)
    jobs = [(at(end, number), end + late) for number, (end, late) in enumerate(ends)]
    told: list[EndedJob] = []
    for now in [*sorted(looks), 200.0]:
        seen = [
            job for job, visible in jobs if visible <= now and job.completed_at >= follower.since
        ]
        told += follower.take(sorted(seen, key=lambda job: job.position))
    assert len(told) == len(jobs)
    assert {job.id for job in told} == {job.id for job, _ in jobs}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED_REMEMBERED_MAX", 3)
    follower = Follower(START)
    jobs = [at(1, number) for number in range(5)]
    assert follower.take(jobs) == jobs
    assert follower.take(jobs) == jobs[:2]

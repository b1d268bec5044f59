"""The values that travel."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from fencepost.core.job.job import (
    EMPTY,
    Body,
    Category,
    ClaimedJob,
    Encoding,
    Lease,
    NewJob,
    Ownership,
)
from fencepost.core.job.policy import DEFAULT_POLICY, Priority

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def claimed(version: int, last_version: int = 0) -> ClaimedJob:
    return ClaimedJob(
        id="j",
        type="mail",
        queue="default",
        priority=Priority.NORMAL,
        attempt=1,
        max_attempts=3,
        lease=Lease("token", version, NOON),
        lease_ttl=30.0,
        payload=EMPTY,
        policy=DEFAULT_POLICY,
        last_version=last_version,
    )


def test_a_claimed_job_knows_its_attempt_and_the_one_before() -> None:
    """S1-78."""
    assert claimed(1).attempt_id == "j.1"
    assert claimed(1).previous_attempt_id is None
    assert claimed(7, 4).attempt_id == "j.7"
    assert claimed(7, 4).previous_attempt_id == "j.4"


def test_a_new_job_has_no_id_and_cannot_choose_what_the_system_sets() -> None:
    """S1-2, S1-104, C16; that an app refuses an id is tested with the other bad input."""
    assert NewJob(type="mail").id is None
    assert not set(NewJob.__struct_fields__) & {"state", "attempt", "created_at"}


def test_what_has_been_checked_cannot_be_changed() -> None:
    """S1-94."""
    job = NewJob(type="mail")
    with pytest.raises(AttributeError):
        job.payload = Body(b"[]")  # type: ignore[misc]  # that it is refused is the point


def test_a_job_without_arguments_is_an_empty_object() -> None:
    """S1-90."""
    assert Body(b"{}", Encoding.JSON) == EMPTY


def test_the_token_is_shown_to_nobody_but_its_owner() -> None:
    """S0-72: who looks at a job sees the worker and the expiry."""
    assert "token" not in Ownership.__struct_fields__


def test_there_are_exactly_five_categories_of_failure() -> None:
    """S1-80."""
    assert set(Category) == {"temporary", "permanent", "timeout", "cancelled", "system"}


def test_the_values_can_be_sent_as_json() -> None:
    """S0-72: a worker in any language gets what one in Python gets."""
    job = claimed(2)
    assert msgspec.json.decode(msgspec.json.encode(job), type=ClaimedJob) == job

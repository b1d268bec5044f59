"""Searches and their pages."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX
from fencepost.core.filter import (
    DEAD_LETTERS,
    JOBS,
    JobFilter,
    Listing,
    PageRequest,
    decode_cursor,
    encode_cursor,
    make_filter,
    make_page,
    parse_states,
)
from fencepost.core.job.lifecycle import State
from fencepost.errors import ConfigurationError, FencepostError, InvalidJobError

POSITIONS = st.integers(0, 10**18 - 1)


def test_a_filter_without_conditions_means_all_jobs() -> None:
    """S1-107, S1-108."""
    assert make_filter() == JobFilter()


def test_every_condition_is_checked_and_kept() -> None:
    """S1-105, S1-107, S1-108, S0-8."""
    assert make_filter(
        state="running", type="mail", queue="q", tags={"tenant": "7"}, correlation_id="c"
    ) == JobFilter(
        states=(State.RUNNING,), type="mail", queue="q", tags={"tenant": "7"}, correlation_id="c"
    )


@pytest.mark.parametrize(
    "condition",
    [
        {"type": ""},
        {"queue": ""},
        {"tags": {"a": 5}},
        {"correlation_id": "\n"},
        *(
            {"id_prefix": each}
            for each in ("", "-", "g", "3f-2a", "3f2a91c-0", "0" * 35, "٣", "3f--", "3f\n", 5)
        ),
    ],
)
def test_a_condition_that_no_job_could_meet_is_refused(condition: dict[str, Any]) -> None:
    """S1-105, S1-107, S1-108."""
    with pytest.raises(InvalidJobError):
        make_filter(**condition)


@pytest.mark.parametrize("prefix", ["3F2A91C0", "3f2a91c0-", "3f2a91c0-4d", "3f2a91c04d"])
def test_the_beginning_of_an_id_is_kept_as_digits(prefix: str) -> None:
    """S1-1: in either case, with the dashes of an id or without any."""
    filter = make_filter(id_prefix=prefix)
    assert filter.id_prefix == prefix.lower().replace("-", "")
    assert not filter.is_countable


def test_times_of_creation_are_kept_in_utc() -> None:
    """S1-107, S2-5."""
    berlin = timezone(timedelta(hours=2))
    filter = make_filter(
        created_after=datetime(2026, 5, 1, 2, tzinfo=berlin),
        created_before=datetime(2026, 5, 2, tzinfo=UTC),
    )
    assert filter.created_after == datetime(2026, 5, 1, tzinfo=UTC)
    assert filter.created_after.tzinfo is UTC
    assert filter.is_dated
    assert not make_filter(type="mail").is_dated


@pytest.mark.parametrize("name", ["created_after", "created_before"])
@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 5, 1),  # noqa: DTZ001 - this is what is refused
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        "2026-05-01T00:00:00Z",
        1_777_777_777,
    ],
    ids=str,
)
def test_a_time_that_is_none_of_ours_is_refused(name: str, value: Any) -> None:
    """S1-107, S2-5: without a zone, or outside of the calendar."""
    with pytest.raises(ConfigurationError, match=name):
        make_filter(**{name: value})


@pytest.mark.parametrize(
    ("value", "states"),
    [
        (None, ()),
        ([], ()),
        (State.RUNNING, (State.RUNNING,)),
        ("dead_letter", (State.DEAD_LETTER,)),
        ("DEAD_LETTER", (State.DEAD_LETTER,)),
        ("in_flight", (State.RUNNING,)),
        ("succeeded", (State.COMPLETED,)),
        ("failed", (State.FAILED, State.DEAD_LETTER)),
        ("ready", (State.PENDING, State.SCHEDULED, State.DELAYED, State.RETRYING)),
        (["running", State.RUNNING, "completed"], (State.RUNNING, State.COMPLETED)),
        ((state for state in ("cancelled",)), (State.CANCELLED,)),
    ],
)
def test_states_are_known_by_their_fine_and_their_coarse_names(
    value: Any, states: tuple[State, ...]
) -> None:
    """C5."""
    assert parse_states(value) == states


@pytest.mark.parametrize(
    "value", ["", "done", ["running", "done"], [None], 5, [5], b"running", 1.5]
)
def test_an_unknown_state_is_refused_with_the_names_there_are(value: Any) -> None:
    """C5."""
    with pytest.raises(ConfigurationError, match=r"no state is called .*; there are pending, "):
        parse_states(value)


@given(st.text() | st.integers() | st.none() | st.binary() | st.lists(st.text() | st.integers()))
def test_only_states_or_a_configuration_error_come_out(value: Any) -> None:
    """C5."""
    with suppress(ConfigurationError):
        assert set(parse_states(value)) <= set(State)


@pytest.mark.parametrize("listing", [JOBS, DEAD_LETTERS])
@given(st.data())
def test_a_cursor_leads_back_to_its_position(listing: Listing, data: st.DataObject) -> None:
    """S3-24: pages of a list."""
    position = data.draw(st.integers(0, 10**listing.digits_max - 1))
    cursor = encode_cursor(position, listing)
    assert decode_cursor(cursor, listing) == position
    assert cursor.replace("-", "").replace("_", "").isalnum()


def test_a_cursor_of_another_list_is_refused() -> None:
    """S3-24: a position on one says nothing about the other."""
    with pytest.raises(ConfigurationError, match="is not a cursor"):
        make_page(limit=1, after=encode_cursor(7, DEAD_LETTERS))
    with pytest.raises(ConfigurationError, match="is not a cursor"):
        make_page(limit=1, after=encode_cursor(7), of=DEAD_LETTERS)
    cursor = encode_cursor(10**30, DEAD_LETTERS)
    assert make_page(limit=1, after=cursor, of=DEAD_LETTERS) == PageRequest(1, 10**30)


@given(
    st.text()
    | st.text("ABCXYZabcxyz0189-_=")
    | st.binary().map(lambda raw: base64.urlsafe_b64encode(b"j1:" + raw).decode().rstrip("="))
    | st.tuples(POSITIONS.map(encode_cursor), st.text(max_size=3)).map("".join)
)
@example(encode_cursor(5) + "==")
@example(encode_cursor(5)[:-1] + "R")
@example(encode_cursor(10**18))
@example(base64.urlsafe_b64encode(b"j1:05").decode())
@example(base64.urlsafe_b64encode(b"5").decode().rstrip("="))
@example("\ud800")
def test_every_text_that_no_page_gave_out_is_refused(text: str) -> None:
    """S3-24: one position, one cursor."""
    try:
        position = decode_cursor(text)
    except ConfigurationError:
        return
    assert encode_cursor(position) == text


@pytest.mark.parametrize("text", [None, 5, b"ajE6NQ", ["ajE6NQ"]])
def test_a_cursor_is_text(text: Any) -> None:
    """S3-24."""
    with pytest.raises(ConfigurationError, match="is not a cursor"):
        decode_cursor(text)


def test_a_page_has_a_size_and_a_beginning() -> None:
    """S3-24."""
    assert PageRequest() == PageRequest(PAGE_DEFAULT, None)
    assert make_page(limit=1, after=None) == PageRequest(1, None)
    assert make_page(limit=PAGE_MAX, after=encode_cursor(7)) == PageRequest(PAGE_MAX, 7)


@pytest.mark.parametrize("limit", [0, -1, PAGE_MAX + 1, True, 1.0, "5", None])
def test_a_page_of_a_size_that_makes_no_sense_is_refused(limit: Any) -> None:
    """S3-24: every answer is bounded."""
    with pytest.raises(ConfigurationError, match=f"limit must lie between 1 and {PAGE_MAX:,}"):
        make_page(limit=limit, after=None)


@given(st.integers() | st.none() | st.text(), st.none() | st.text() | st.integers())
def test_only_a_page_or_a_fencepost_error_comes_out(limit: Any, after: Any) -> None:
    """S3-24."""
    with suppress(FencepostError):
        assert 1 <= make_page(limit=limit, after=after).limit <= PAGE_MAX

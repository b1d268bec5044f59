"""Names of events, patterns of names, and what a job is told of its event."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import EVENT_NAME_LENGTH_MAX, TAG_VALUE_LENGTH_MAX
from fencepost.core.events import (
    EVENT_TAG,
    EventInfo,
    NewEvent,
    SentEvent,
    check_event_name,
    check_pattern,
    event_of,
    jobs_for,
    matches,
)
from fencepost.core.job.job import Body, NewJob
from fencepost.core.values.names import check_tags
from fencepost.errors import InvalidEventError, InvalidJobError
from fencepost.testing.clock import START

WORDS = st.from_regex(r"[A-Za-z0-9_-]{1,3}", fullmatch=True)
NAMES = st.lists(WORDS, min_size=1, max_size=5).map(".".join)
PATTERNS = st.builds(
    lambda words, last: ".".join([*words, *last]) or "*",
    st.lists(WORDS | st.just("*"), max_size=4),
    st.sampled_from([[], ["**"]]),
)
ANYTHING = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | NAMES | PATTERNS


@pytest.mark.parametrize(
    "name", ["a", "user.created", "A-1_b.2.c", "a" * EVENT_NAME_LENGTH_MAX, "_.-"]
)
def test_a_name_is_words_with_dots_between_them(name: str) -> None:
    assert check_event_name(name) == name
    assert check_pattern(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "a.", ".a", "a..b", "a b", "a.b\n", "größe", "a/b", "a" * 201, None, 5, b"a", ["a"]],
)
def test_what_is_no_name_is_no_pattern_either(name: Any) -> None:
    with pytest.raises(InvalidEventError, match="event name"):
        check_event_name(name)
    with pytest.raises(InvalidEventError, match="event pattern"):
        check_pattern(name)


@pytest.mark.parametrize("pattern", ["*", "**", "user.*", "*.created", "a.*.c", "a.**", "*.**"])
def test_a_pattern_is_not_the_name_of_one_event(pattern: str) -> None:
    assert check_pattern(pattern) == pattern
    with pytest.raises(InvalidEventError, match="give the full name"):
        check_event_name(pattern)


@pytest.mark.parametrize("pattern", ["**.a", "a.**.b", "a*", "us*r.created", "***", "a.***", "*."])
def test_wildcards_stand_for_whole_words_and_the_long_one_comes_last(pattern: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        check_pattern(pattern)
    assert caught.value.code == "invalid_event"
    assert isinstance(caught.value, InvalidJobError)


@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [
        ("user.created", ["user.created"], ["user", "user.created.now", "User.created"]),
        ("user.*", ["user.created", "user.x"], ["user", "user.a.b", "users.a"]),
        ("*", ["user"], ["user.created"]),
        ("*.created", ["user.created", "order.created"], ["created", "a.b.created"]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.b.c", "a.b.d"]),
        ("user.**", ["user.a", "user.a.b.c"], ["user", "users.a"]),
        ("**", ["a", "a.b.c"], []),
        ("*.**", ["a.b", "a.b.c"], ["a"]),
    ],
)
def test_a_pattern_means_some_names_and_no_others(
    pattern: str, meant: list[str], not_meant: list[str]
) -> None:
    assert [name for name in [*meant, *not_meant] if matches(pattern, name)] == meant


@given(PATTERNS, NAMES)
def test_a_pattern_matches_as_the_expression_that_it_abbreviates(pattern: str, name: str) -> None:
    word = r"[A-Za-z0-9_-]+"
    parts = {"*": word, "**": rf"{word}(?:\.{word})*"}
    expression = r"\.".join(parts.get(each, re.escape(each)) for each in pattern.split("."))
    assert matches(pattern, name) == (re.fullmatch(expression, name) is not None)


@given(NAMES)
def test_a_name_means_itself_and_so_does_the_widest_pattern(name: str) -> None:
    assert matches(name, name)
    assert matches("**", name)


@given(ANYTHING)
def test_only_what_was_given_or_the_error_comes_out(value: Any) -> None:
    for check in (check_event_name, check_pattern):
        with suppress(InvalidEventError):
            assert check(value) == value


def test_the_jobs_of_an_event_carry_its_name_and_its_id() -> None:
    job = NewJob(type="mail", tags={"tenant": "7"})
    (made,) = jobs_for("id", NewEvent("user.created"), [job])
    assert made.tags == {"tenant": "7", EVENT_TAG: "user.created"}
    assert made.correlation_id == "id"
    assert job.tags == {"tenant": "7"}
    assert event_of(made.tags, made.correlation_id) == EventInfo("id", "user.created")


@pytest.mark.parametrize(("tags", "correlation_id"), [({}, "id"), ({EVENT_TAG: "a"}, None)])
def test_another_job_has_no_event(tags: dict[str, str], correlation_id: str | None) -> None:
    assert event_of(tags, correlation_id) is None


def test_any_name_fits_into_the_tag() -> None:
    assert EVENT_NAME_LENGTH_MAX <= TAG_VALUE_LENGTH_MAX
    tags = {EVENT_TAG: "a" * EVENT_NAME_LENGTH_MAX}
    assert check_tags(tags, may_be_reserved=True) == tags


def test_a_record_shows_what_was_sent() -> None:
    record = SentEvent(id="id", name="a", sent_at=START, payload=Body(b'{"x":1}'))
    assert record.data == {"x": 1}

"""Rules for the names that users give."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.filter import make_filter
from fencepost.core.job.job import NewJob
from fencepost.core.values.names import (
    DEFAULT_QUEUE,
    UNPRINTABLE,
    check_correlation_id,
    check_queue,
    check_tags,
    check_type,
    reserved_tags,
)
from fencepost.errors import FencepostError, InvalidJobError

CHECKS: list[tuple[Callable[[Any], Any], int]] = [
    (check_type, 200),
    (check_queue, 100),
    (check_correlation_id, 256),
]
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@pytest.mark.parametrize(("check", "limit"), CHECKS)
def test_a_name_may_be_as_long_as_its_limit_in_characters(
    check: Callable[[Any], Any], limit: int
) -> None:
    """S1-105, S1-108, S0-8."""
    for name in ("a", "orders.paid/v2:eu", "büro 🚀", "🚀" * limit):
        assert check(name) == name
    with pytest.raises(InvalidJobError, match=f"may have {limit} characters, got {limit + 1}"):
        check("x" * (limit + 1))


@pytest.mark.parametrize(("check", "limit"), CHECKS)
@pytest.mark.parametrize("value", ["", 5, b"x", ["x"], True, "a\nb", "a\0b", "\ud800", "\u202e"])
def test_a_name_that_is_empty_unprintable_or_no_text_is_refused(
    check: Callable[[Any], Any], limit: int, value: Any
) -> None:
    """S1-105, S1-108, S0-8: what can forge a log line is no name."""
    with pytest.raises(InvalidJobError, match="must be"):
        check(value)


@pytest.mark.parametrize("check", [check_type, check_queue])
def test_a_type_and_a_queue_are_required(check: Callable[[Any], Any]) -> None:
    """S1-105."""
    with pytest.raises(InvalidJobError, match="non-empty text, got None"):
        check(None)


def test_a_correlation_id_is_optional() -> None:
    """S1-108."""
    assert NewJob(type="add").correlation_id is None


def test_a_job_goes_to_the_default_queue_unless_it_says_otherwise() -> None:
    """S0-8."""
    assert NewJob(type="mail").queue == DEFAULT_QUEUE == "default"


@pytest.mark.parametrize("tags", [None, {}])
def test_tags_are_optional(tags: Any) -> None:
    """S1-107."""
    assert check_tags(tags) == {}


def test_tags_are_copied() -> None:
    """S1-94: what a caller changes later does not change the job."""
    mine = {"tenant": "7"}
    checked = check_tags(mine)
    mine["tenant"] = "8"
    assert checked == {"tenant": "7"}


def test_tags_may_be_as_many_and_as_long_as_their_limits() -> None:
    """S1-107."""
    tags = {f"{n:064}": "v" * 256 for n in range(32)}
    assert check_tags(tags) == tags


@pytest.mark.parametrize(
    "tags",
    [
        {str(n): "v" for n in range(33)},
        *({"n" * 65: "v"}, {"n": "v" * 257}, {"": "v"}, {"n": ""}, {"n": 5}, {5: "v"}),
        *({"n": None}, {"n": "a\nb"}, {"a\nb": "v"}, [("n", "v")], "tag", 5, {10**5_000: 5}),
    ],
)
def test_tags_that_break_a_rule_are_refused(tags: Any) -> None:
    """S1-107."""
    with pytest.raises(InvalidJobError, match="tag"):
        check_tags(tags)


@pytest.mark.parametrize("name", ["fencepost.", "fencepost.event", "fencepost.mine"])
def test_tags_that_begin_with_our_name_can_be_searched_and_not_given(name: str) -> None:
    """S1-107: a handler must be able to rely on what they say."""
    tags = {"tenant": "7", name: "x"}
    with pytest.raises(InvalidJobError, match=r"'fencepost\.'.*call it something else"):
        check_tags(tags)
    assert check_tags(tags, may_be_reserved=True) == tags
    assert reserved_tags(tags) == {name: "x"}
    assert make_filter(tags=tags).tags == tags


@given(ANYTHING, st.dictionaries(st.text() | st.integers(), ANYTHING) | ANYTHING)
def test_only_what_was_given_or_a_fencepost_error_comes_out(name: Any, tags: Any) -> None:
    """S1-105, S1-107, S1-108."""
    for check, _ in CHECKS:
        with suppress(FencepostError):
            assert check(name) == name
    with suppress(FencepostError):
        assert check_tags(tags) == (tags or {})


def test_what_can_be_printed_is_a_name_and_what_hides_is_none() -> None:
    """The rule is one that the document of the API can say: every printable text keeps it."""
    for code in range(sys.maxunicode + 1):
        text = chr(code)
        if text.isprintable():
            assert not re.fullmatch(f"[{UNPRINTABLE}]", text), hex(code)
    for text in (
        "\n",
        "\x7f",
        "\x9b",
        "\u200b",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\U000e0041",
        "\ud800",
    ):
        with pytest.raises(InvalidJobError):
            check_type(f"a{text}b")

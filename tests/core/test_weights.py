"""Fair turns between queues."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import WEIGHT_MAX, WEIGHT_TOTAL_MAX
from fencepost.core.limits.weights import deal, parse_weights, row_of_turns
from fencepost.errors import ConfigurationError, FencepostError, InvalidJobError

WEIGHTS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.integers(1, WEIGHT_MAX), min_size=1, max_size=8
)
TURNS = st.integers(0, 10**12)


def test_a_map_is_taken_as_it_is_and_a_list_gives_equal_turns() -> None:
    """S4-3, C14."""
    assert parse_weights({"mail": 3, "bulk": 1}) == {"mail": 3, "bulk": 1}
    assert parse_weights(["mail", "bulk", "mail"]) == {"mail": 1, "bulk": 1}


@pytest.mark.parametrize(
    "queues",
    [
        *({}, [], "mail", None, 5),
        *({"a": 0}, {"a": -1}, {"a": WEIGHT_MAX + 1}, {"a": True}, {"a": 1.5}, {"a": "3"}),
        *({"a": None}, {"a": 10**5_000}),
        {f"q{n}": WEIGHT_MAX for n in range(WEIGHT_TOTAL_MAX // WEIGHT_MAX + 1)},
    ],
)
def test_weights_that_make_no_sense_are_refused(queues: Any) -> None:
    """C14: also a lone name, which would be read letter by letter."""
    with pytest.raises(ConfigurationError):
        parse_weights(queues)


@pytest.mark.parametrize("queues", [{"": 1}, {5: 1}, [""], [None], [[]], ["x" * 101], ["a\nb"]])
def test_a_queue_that_cannot_be_one_is_refused(queues: Any) -> None:
    """S0-8."""
    with pytest.raises(InvalidJobError, match="queue"):
        parse_weights(queues)


@given(
    st.dictionaries(st.text(max_size=3), st.integers(-1, 101) | st.none())
    | st.lists(st.text(max_size=3) | st.integers())
    | st.text()
    | st.integers()
)
def test_only_weights_or_fencepost_errors_come_out(queues: Any) -> None:
    """C14."""
    try:
        weights = parse_weights(queues)
    except FencepostError:
        return
    assert all(1 <= weight <= WEIGHT_MAX for weight in weights.values())


@pytest.mark.parametrize(
    ("weights", "row"),
    [
        ({"mail": 3, "bulk": 1}, ("mail", "mail", "bulk", "mail")),
        ({"a": 1, "b": 1}, ("a", "b")),
        ({"a": 50, "b": 50}, ("a", "b")),
        ({"a": 2, "b": 1, "c": 1}, ("a", "b", "c", "a")),
        ({"only": 7}, ("only",)),
    ],
)
def test_a_row_is_as_short_as_can_be_and_spreads_each_queue_evenly(
    weights: dict[str, int], row: tuple[str, ...]
) -> None:
    """S4-3, C14."""
    assert row_of_turns(weights) == row


@given(WEIGHTS, TURNS, st.integers(1, 5))
def test_shares_over_whole_rows_are_exactly_proportional(
    weights: dict[str, int], turn: int, rows: int
) -> None:
    """S4-3, C14: wherever one begins."""
    length = len(row_of_turns(weights))
    total = sum(weights.values())
    shares = deal(weights, turn, rows * length)
    assert {name: share * total for name, share in shares.items()} == {
        name: weight * rows * length for name, weight in weights.items()
    }


@given(WEIGHTS, TURNS, st.integers(0, 5_000))
def test_every_turn_goes_to_exactly_one_queue(
    weights: dict[str, int], turn: int, count: int
) -> None:
    """C14."""
    shares = deal(weights, turn, count)
    assert sum(shares.values()) == count
    assert all(share >= 0 for share in shares.values())
    assert shares.keys() == weights.keys()


@given(WEIGHTS, TURNS, st.lists(st.integers(0, 50), max_size=20))
def test_dealing_in_pieces_gives_what_dealing_at_once_gives(
    weights: dict[str, int], turn: int, pieces: list[int]
) -> None:
    """S4-3: a worker needs to remember no more than how many turns it has dealt."""
    dealt: Counter[str] = Counter()
    done = turn
    for piece in pieces:
        dealt.update(deal(weights, done, piece))
        done += piece
    assert dealt == Counter(deal(weights, turn, sum(pieces)))


@given(WEIGHTS, TURNS)
def test_no_queue_waits_longer_than_one_row_for_its_turn(
    weights: dict[str, int], turn: int
) -> None:
    """S4-3, C14: nothing starves."""
    assert min(deal(weights, turn, len(row_of_turns(weights))).values()) >= 1


@given(WEIGHTS, TURNS)
def test_queues_are_named_in_the_order_in_which_they_come_up(
    weights: dict[str, int], turn: int
) -> None:
    """C14: which is the order in which turns left over are offered."""
    row = row_of_turns(weights)
    start = turn % len(row)
    assert list(deal(weights, turn, 1)) == list(dict.fromkeys(row[start:] + row[:start]))

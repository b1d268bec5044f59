"""Sharing a limit of all running jobs between places."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.limits.quotas import Level, Wish, share

LEVELS = st.dictionaries(
    st.integers(0, 5),
    st.builds(Level, st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
)


def test_who_wants_it_gets_what_others_do_not_use() -> None:
    levels = {1: Level(3, 1), 2: Level(0, 0)}
    assert share(4, levels, {2: Wish(0, 9)}) == {2: 3, 1: 1}
    assert share(4, levels, {2: Wish(0, 1)}) == {2: 1, 1: 3}


def test_those_that_want_more_have_equal_shares() -> None:
    levels = {1: Level(4, 4), 2: Level(0, 0)}
    assert share(4, levels, {1: Wish(0, 9), 2: Wish(5, 9)}) == {1: 2, 2: 2}


def test_the_smaller_comes_first_and_then_who_waits_longer() -> None:
    levels = {1: Level(1, 1), 2: Level(0, 0), 3: Level(0, 0)}
    wishes = {1: Wish(0, 9), 2: Wish(7, 9), 3: Wish(5, 9)}
    assert share(1, levels, wishes) == {1: 0, 2: 0, 3: 1}
    assert share(2, levels, wishes) == {1: 0, 2: 1, 3: 1}


@given(st.integers(1, 20), LEVELS, st.data())
def test_no_more_is_given_than_there_is(
    limit: int, levels: dict[int, Level], data: st.DataObject
) -> None:
    """What runs beside the quotas counts, too; and what is wanted is given if there is room."""
    wishing = data.draw(st.sets(st.sampled_from(sorted(levels))))
    wishes = {place: Wish(data.draw(st.integers(0, 9)), 3) for place in wishing}
    quotas = share(limit, levels, wishes)
    assert quotas.keys() == levels.keys()
    idle = levels.keys() - wishing
    taken = sum(quotas[place] for place in wishing)
    used = sum(max(quotas[place], levels[place].running) for place in idle)
    assert taken == 0 or taken + used <= limit
    for place in idle:
        assert quotas[place] <= levels[place].quota
    for place in wishing:
        assert quotas[place] <= levels[place].running + 3
    if taken + used < limit:
        assert all(quotas[place] == levels[place].running + 3 for place in wishing)

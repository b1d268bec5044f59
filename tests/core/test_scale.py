"""How many slots a queue could use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import SCALE_SLOTS_MAX
from fencepost.core.stats.overview import Load, Scale, scale


def asked(target: float = 60.0, **fields: Any) -> Scale:
    given = {"depth": 0, "running": 0, "slots": 0, "arrivals": 0.0, "run_time": 1.0, **fields}
    return scale("q", Load(**given), target=target)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, 0),
        ({"depth": 600}, 10),
        ({"depth": 600, "target": 30.0}, 20),
        ({"depth": 601}, 11),
        ({"depth": 1}, 1),
        ({"depth": 1, "run_time": 0.0}, 1),
        ({"arrivals": 5.0, "run_time": 2.0}, 10),
        ({"arrivals": 5.0, "run_time": 2.0, "depth": 60}, 12),
        ({"depth": 600, "run_time": None}, 10),
        ({"running": 4}, 4),
        ({"depth": 600, "running": 30}, 30),
        ({"depth": 600, "max_running": 3}, 3),
        ({"depth": 600, "is_paused": True}, 0),
        ({"depth": 600, "running": 2, "is_paused": True}, 2),
        ({"depth": 10**12, "run_time": 1e6}, SCALE_SLOTS_MAX),
    ],
    ids=str,
)
def test_a_queue_wants_what_keeps_up_and_what_drains_it(
    fields: dict[str, Any], wanted: int
) -> None:
    assert asked(**fields).wanted_slots == wanted


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 0.0),
        ({"depth": 100, "slots": 10}, 10.0),
        ({"depth": 100, "slots": 10, "run_time": 0.5}, 5.0),
        ({"depth": 100, "slots": 10, "arrivals": 5.0}, 20.0),
        ({"depth": 100, "slots": 10, "arrivals": 10.0}, None),
        ({"depth": 100, "slots": 10, "max_running": 1}, 100.0),
        ({"depth": 100, "slots": 0}, None),
        ({"depth": 100, "slots": 10, "is_paused": True}, None),
    ],
    ids=str,
)
def test_the_backlog_is_gone_when_more_ends_than_arrives(
    fields: dict[str, Any], seconds: float | None
) -> None:
    assert asked(**fields).drain_seconds == seconds


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**4),
    st.floats(0, 1e6),
    st.none() | st.floats(0, 1e6),
    st.floats(1, 1e6),
)
def test_the_hint_is_bounded_and_never_takes_a_slot_from_what_runs(
    depth: int, running: int, arrivals: float, run_time: float | None, target: float
) -> None:
    found = asked(
        target, depth=depth, running=running, arrivals=arrivals, run_time=run_time, slots=1
    )
    assert running <= found.wanted_slots <= max(SCALE_SLOTS_MAX, running)
    assert found.wanted_slots > 0 or depth == 0
    assert found.drain_seconds is None or found.drain_seconds >= 0

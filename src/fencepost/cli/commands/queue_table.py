"""How queues and types are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fencepost.cli.output import when

if TYPE_CHECKING:
    from fencepost.store.interface.overview import QueueView, TypeView

STATES = (
    "pending",
    "scheduled",
    "delayed",
    "retrying",
    "running",
    "completed",
    "failed",
    "dead_letter",
    "cancelled",
)


def lane_columns(*first: str) -> tuple[str, ...]:
    """Return the header of a list of lanes."""
    return (*first, *(state.upper() for state in STATES))


def lane_rows(lanes: Sequence[QueueView] | Sequence[TypeView]) -> list[tuple[object, ...]]:
    """Return a row a lane: its name, whether it is paused, limited or rated, and its counts."""
    rows: list[tuple[object, ...]] = []
    for lane in lanes:
        limit = getattr(lane, "max_running", None)
        notes = ["paused"] if lane.is_paused else []
        notes += [f"at most {limit}"] if limit is not None else []
        rate = getattr(lane, "rate", None)
        notes += [f"starts {rate.shown}"] if rate is not None else []
        oldest_at = getattr(lane, "oldest_at", None)
        notes += [f"oldest since {when(oldest_at)}"] if oldest_at is not None else []
        counts = {str(state): count for state, count in lane.counts.items()}
        rows.append((lane.name, ", ".join(notes), *(counts.get(state, 0) for state in STATES)))
    return rows

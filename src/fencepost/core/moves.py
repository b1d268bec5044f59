"""The mark of a store whose jobs are being moved to another: a paused queue of a name of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.core.stats.overview import QueueView

MARKS = "fencepost:mov"
MOVING = f"{MARKS}ing"
MOVED = f"{MARKS}ed"


class Mark(NamedTuple):
    """Whether a store's jobs are being moved away, or have been."""

    is_moving: bool
    is_moved: bool


def mark_of(queues: Sequence[QueueView]) -> Mark:
    """Return the mark among the queues of a store."""
    names = {queue.name for queue in queues if queue.is_paused}
    # Both exist if a move was interrupted at its very end.
    return Mark(is_moving=MOVING in names and MOVED not in names, is_moved=MOVED in names)

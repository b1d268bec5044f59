"""How long terminal jobs, and the records of events, are kept before they are pruned."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.core.duration import Duration, parse_duration
from fencepost.core.lifecycle import State

DAY = 86_400.0


@dataclass(frozen=True, slots=True, init=False)
class Retention:
    """How long a job is kept after it became terminal, by state; in seconds.

    What failed is kept longer than what succeeded, because somebody still has to look at it.
    """

    completed: float
    cancelled: float
    failed: float
    dead_letter: float
    events: float
    """How long the record of an event is kept after it was sent."""

    def __init__(
        self,
        *,
        completed: Duration = 7 * DAY,
        cancelled: Duration = 7 * DAY,
        failed: Duration = 90 * DAY,
        dead_letter: Duration = 90 * DAY,
        events: Duration = 7 * DAY,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "completed", parse_duration(completed, name="completed"))
        set_(self, "cancelled", parse_duration(cancelled, name="cancelled"))
        set_(self, "failed", parse_duration(failed, name="failed"))
        set_(self, "dead_letter", parse_duration(dead_letter, name="dead_letter"))
        set_(self, "events", parse_duration(events, name="events"))

    def by_state(self) -> dict[State, float]:
        """Return the seconds to keep each terminal state."""
        return {
            State.COMPLETED: self.completed,
            State.CANCELLED: self.cancelled,
            State.FAILED: self.failed,
            State.DEAD_LETTER: self.dead_letter,
        }

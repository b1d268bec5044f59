"""How long terminal jobs, records of events and the audit log are kept before they are pruned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fencepost.core.bounds import AUDIT_KEPT
from fencepost.core.display import shown
from fencepost.core.job.lifecycle import State
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.names import check_type
from fencepost.errors import ConfigurationError

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
    audit: float
    """How long an entry of the audit log is kept; PostgreSQL keeps it for a week at the least."""
    by_type: Mapping[str, Retention]
    """Rules for the jobs of some types, in the place of these; a task can bring its own."""

    def __init__(
        self,
        *,
        completed: Duration = 7 * DAY,
        cancelled: Duration = 7 * DAY,
        failed: Duration = 90 * DAY,
        dead_letter: Duration = 90 * DAY,
        events: Duration = 7 * DAY,
        audit: Duration = AUDIT_KEPT,
        by_type: Mapping[str, Retention] | None = None,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "completed", parse_duration(completed, name="completed"))
        set_(self, "cancelled", parse_duration(cancelled, name="cancelled"))
        set_(self, "failed", parse_duration(failed, name="failed"))
        set_(self, "dead_letter", parse_duration(dead_letter, name="dead_letter"))
        set_(self, "events", parse_duration(events, name="events"))
        set_(self, "audit", parse_duration(audit, name="audit"))
        set_(self, "by_type", _check_types(by_type or {}))

    def with_types(self, by_type: Mapping[str, Retention]) -> Retention:
        """Return the same with rules for more types; those that are there stay."""
        return replace(self, by_type={**by_type, **self.by_type})

    def by_state(self) -> dict[State, float]:
        """Return the seconds to keep each terminal state."""
        return {
            State.COMPLETED: self.completed,
            State.CANCELLED: self.cancelled,
            State.FAILED: self.failed,
            State.DEAD_LETTER: self.dead_letter,
        }


def check_retention(value: object) -> Retention:
    """Return *value* if it is one, or raise ConfigurationError."""
    if not isinstance(value, Retention):
        raise ConfigurationError(f"retention must be a Retention(…), got {shown(value)}")
    return value


def _check_types(by_type: Mapping[str, Retention]) -> dict[str, Retention]:
    rules = {check_type(type_): check_retention(rule) for type_, rule in by_type.items()}
    for type_, rule in rules.items():
        if rule.by_type:
            raise ConfigurationError(f"the retention of type {type_!r} cannot name types again")
    return rules

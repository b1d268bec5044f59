"""Five priorities; the lower number goes first (S1-31, C12)."""

from __future__ import annotations

from enum import IntEnum

from fencepost.core.display import shown
from fencepost.errors import InvalidJobError


class Priority(IntEnum):
    """In what order jobs of one queue start. It never interrupts a running job (C13)."""

    CRITICAL = 0
    """System-level work."""
    HIGH = 1
    """A user is waiting."""
    NORMAL = 2
    """Standard background work."""
    LOW = 3
    """Can wait indefinitely."""
    BULK = 4
    """Batch work that must not get in the way."""


def parse_priority(value: int | str | Priority) -> Priority:
    """Return the priority that *value* names, or raise InvalidJobError."""
    if isinstance(value, str) and value.isascii() and value.upper() in Priority.__members__:
        return Priority[value.upper()]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 4:
        return Priority(value)
    raise InvalidJobError(
        f"priority must be 0 (critical) to 4 (bulk) or one of their names, got {shown(value)}"
    )

"""Which refused tries are recorded: a few of each token in a minute, and how many more there were.

Whoever is refused can come again as often as he likes, and must not fill the disk with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import AUDIT_REFUSED_MAX, AUDIT_REFUSED_WINDOW, TOKENS_MAX


@dataclass
class _Window:
    principal: Principal
    ends_at: float
    recorded: int = 0
    more: int = 0


class RefusedTries:
    """The tries of late, by who made them."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str | None, str], _Window] = {}

    def note(self, principal: Principal, now: float) -> bool:
        """Tell whether a try is recorded; else it is counted. Ask for ``ended`` before."""
        key = (principal.token_id, principal.name)
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= TOKENS_MAX:
                return False
            window = self._windows[key] = _Window(principal, now + AUDIT_REFUSED_WINDOW)
        if window.recorded < AUDIT_REFUSED_MAX:
            window.recorded += 1
            return True
        window.more += 1
        return False

    def ended(self, now: float) -> Iterator[tuple[Principal, int]]:
        """Forget the windows that are over; yield of whom how many tries were only counted."""
        over = [key for key, window in self._windows.items() if window.ends_at <= now]
        for key in over:
            window = self._windows.pop(key)
            if window.more:
                yield window.principal, window.more

"""Who takes up the slots of each concurrency key, and who waits for one."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.store.memory.engine.line import Entry, Line

Scope = tuple[str, str]
"""A type and a concurrency key."""


class Slots:
    """For each key that has such jobs: how many are under way, and the line of those held up."""

    def __init__(self) -> None:
        self._active: dict[Scope, int] = {}
        self._held: dict[Scope, Line] = {}
        self._touched: dict[Scope, None] = {}
        self._noted: set[Scope] = set()

    def active(self, scope: Scope) -> int:
        """Return how many jobs are claimable or running."""
        return self._active.get(scope, 0)

    def first(self, scope: Scope) -> Entry | None:
        """Return who is to have the next slot."""
        line = self._held.get(scope)
        return None if line is None else line.first()

    def take(self, scope: Scope, number: int) -> None:
        """Take up *number* slots; a negative number gives them back."""
        self._touched[scope] = None
        self._active[scope] = self.active(scope) + number
        assert self._active[scope] >= 0
        if not self._active[scope]:
            del self._active[scope]

    def join(self, scope: Scope, entry: Entry) -> None:
        """Put a job among those held up."""
        self._touched[scope] = None
        self._held.setdefault(scope, Line()).join(entry)

    def leave(self, scope: Scope, entry: Entry) -> None:
        """Take a job from among those held up."""
        self._touched[scope] = None
        line = self._held[scope]
        line.leave(entry)
        if not line:
            del self._held[scope]

    def touched(self) -> Iterator[Scope]:
        """Yield each key with which something happened since it was looked at last."""
        while self._touched:
            for scope in sorted(self._touched):
                del self._touched[scope]
                yield scope

    def postpone(self) -> None:
        """Leave what happened for the next claim to look at."""
        self._noted |= self._touched.keys()
        self._touched.clear()

    def recall(self) -> None:
        """Have all looked at now that was left for later."""
        self._touched |= dict.fromkeys(self._noted)
        self._noted.clear()

    @property
    def is_quiet(self) -> bool:
        """True when every key has been looked at."""
        return not self._touched

    def forget_touches(self) -> None:
        """Take it that nothing happened: it was undone."""
        self._touched.clear()

"""What an operation has done so far: how to undo it, and whom to wake once it is done."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.store.interface.listener import Topic


class Journal:
    """Makes one operation one transaction: it is kept whole, or undone whole."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self._topics: set[Topic] = set()

    def note(self, undo: Callable[[], object]) -> None:
        """Remember how to take the change back that has just been made."""
        self._undo.append(undo)

    def announce(self, topic: Topic) -> None:
        """Have the listeners of *topic* woken, if the operation is kept."""
        self._topics.add(topic)

    def keep(self) -> list[Topic]:
        """Make all of it final; return the topics to ring."""
        topics = sorted(self._topics)
        self._clear()
        return topics

    def undo(self) -> None:
        """Take all of it back, the last change first."""
        self.undo_to(0)
        self._clear()

    def mark(self) -> int:
        """Return how much has been done, for ``undo_to``."""
        return len(self._undo)

    def undo_to(self, mark: int) -> None:
        """Take back what has been done since *mark*, the last change first."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def _clear(self) -> None:
        self._undo.clear()
        self._topics.clear()

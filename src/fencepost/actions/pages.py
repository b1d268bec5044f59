"""Pages of lists: some entries, newest first, and the cursor of the page after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.events import SentEvent
from fencepost.core.job.job import DeadLetter

T = TypeVar("T")


class _Entries(msgspec.Struct, Generic[T], frozen=True):
    """Iterates over the entries, which are the first field of each kind of page."""

    def _entries(self) -> Sequence[T]:
        entries: Sequence[T] = getattr(self, self.__struct_fields__[0])
        return entries

    def __iter__(self) -> Iterator[T]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())


class Page(_Entries[T], Generic[T], frozen=True):
    """Some jobs, newest first. Those of a server come without payload and result, for which there
    is ``client.jobs.get(id).refresh()``."""

    jobs: list[T]
    next: str | None = None


class DeadLetters(_Entries[DeadLetter], frozen=True):
    """Some dead letters, the most recent first."""

    letters: list[DeadLetter]
    next: str | None = None


class SentEvents(_Entries[SentEvent], frozen=True):
    """Some events, newest first."""

    events: list[SentEvent]
    next: str | None = None


class AuditLog(_Entries[Action], frozen=True):
    """Some of the log, newest first."""

    actions: list[Action]
    next: str | None = None

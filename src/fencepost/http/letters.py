"""Marks of dead letters, read for many requests at once."""

from __future__ import annotations

import asyncio

from fencepost.actions.local.letters import LetterMarks, read_marks
from fencepost.actions.session import Session
from fencepost.core.bounds import LETTERS_AGE
from fencepost.http.request.call import Aside

Queues = frozenset[str] | None
_SCOPES_MAX = 16
"""Sets of queues that are remembered: what tokens are limited to."""


class LetterCache:
    """The newest dead letters of a moment ago; thousands of tracebacks are read aside.

    Those of a token with queues are read apart: the newest of all might be others' alone.
    """

    def __init__(self, session: Session, figures: Aside) -> None:
        self._session = session
        self._figures = figures
        self._found: dict[Queues, tuple[float, LetterMarks]] = {}
        self._mutex = asyncio.Lock()

    async def read(self, queues: Queues) -> LetterMarks:
        """Return marks (in *queues*) that are at most LETTERS_AGE old, or raise StoreError."""
        session = self._session
        async with self._mutex:
            read_at, found = self._found.get(queues, (0.0, None))
            if found is None or session.clock.monotonic() - read_at >= LETTERS_AGE:
                found = await self._figures.apart(lambda: session.run(read_marks(session, queues)))
                if len(self._found) >= _SCOPES_MAX:
                    self._found.clear()
                self._found[queues] = session.clock.monotonic(), found
        return found

    def forget(self) -> None:
        """Read again at the next request: some were replayed or discarded here."""
        self._found.clear()

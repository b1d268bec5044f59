"""Settlements in a caller's own transaction: naming it, and asking what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from fencepost.errors import ConfigurationError
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class Joined(msgspec.Struct, gc=False, frozen=True):
    """A job that its handler settled in its own transaction, or in several after each other."""

    job_id: str
    token: str
    marks: tuple[str, ...]
    """What ``mark`` called those transactions."""


class Fate(StrEnum):
    """What became of a settlement in a caller's transaction."""

    SETTLED = "settled"
    """It was committed."""
    OPEN = "open"
    """The transaction is open; until it ends, no other worker can take or settle the job."""
    UNDONE = "undone"
    """It was rolled back: the job is as if it had not been settled."""


class JoinsFacet(Facet, abstract=True):
    """Settlements in a caller's own transaction: naming it, and asking what became of it."""

    @operation(Effect.WRITE, has_content=False)
    def mark(self) -> Operation[str]:
        """Name the transaction in which this is run, so that ``fates`` knows it."""

    @operation(Effect.READ, has_content=False)
    def fates(self, asked: Sequence[Joined]) -> Operation[list[Fate]]:
        """Return what became of settlements that were made by ``run_in``; never waits."""


class NoJoins(JoinsFacet):
    """For stores that cannot join a transaction."""

    def __init__(self, url: str) -> None:
        self._url = url

    def mark(self) -> Operation[str]:
        raise joins_nothing(self._url)

    def fates(self, asked: Sequence[Joined]) -> Operation[list[Fate]]:
        raise joins_nothing(self._url)


def joins_nothing(url: str) -> ConfigurationError:
    """Return the error of a store that cannot join a transaction."""
    kind = url.partition(":")[0]
    return ConfigurationError(
        f"a job joins transactions of PostgreSQL only; this app's store is {kind}"
    )

"""A store that goes away when told to: before an operation took effect, or after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

T = TypeVar("T")

Rule = Callable[[str], bool]


def nothing(name: str) -> bool:
    return False


class FlakyStore:
    """Passes everything on to a store, unless it is away for this operation."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.is_away: Rule = nothing
        """Operations that fail and have surely not been done."""
        self.error: type[Exception] = StoreUnavailableError
        """How they fail."""
        self.loses_reply: Rule = nothing
        """Operations that are done, and whose caller does not hear of it."""
        self.refused: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def run(self, operation: Operation[T]) -> T:
        self._refuse(operation)
        return self._reply(operation, self.inner.run(operation))

    async def run_async(self, operation: Operation[T]) -> T:
        self._refuse(operation)
        return self._reply(operation, await self.inner.run_async(operation))

    def _refuse(self, operation: Operation[T]) -> None:
        if self.is_away(operation.name):
            self.refused.append(operation.name)
            raise self.error("the store is away")

    def _reply(self, operation: Operation[T], result: T) -> T:
        if self.loses_reply(operation.name):
            self.refused.append(operation.name)
            raise UnknownOutcomeError("the reply was lost")
        return result


class Times:
    """A rule that holds for the first few operations of a name."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._left = count

    def __call__(self, name: str) -> bool:
        if name == self._name and self._left:
            self._left -= 1
            return True
        return False

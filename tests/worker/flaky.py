"""A store that goes away on request: before an operation took effect, or after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import pytest

from fencepost import App, Retry
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store
from fencepost.store.plan import Operation

T = TypeVar("T")

Method = Callable[..., Operation[Any]]
"""An operation, as a facet declares it."""
Rule = Callable[[Operation[Any]], bool]


def nothing(operation: Operation[Any]) -> bool:
    return False


def everything(operation: Operation[Any]) -> bool:
    return True


def only(method: Method) -> Rule:
    """Return the rule that holds for one operation."""
    return lambda operation: operation.is_a(method)


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
        self.refused: list[Operation[Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def run(self, operation: Operation[T]) -> T:
        self._refuse(operation)
        return self._reply(operation, self.inner.run(operation))

    async def run_async(self, operation: Operation[T]) -> T:
        self._refuse(operation)
        return self._reply(operation, await self.inner.run_async(operation))

    def count(self, method: Method) -> int:
        """Return how often an operation failed."""
        return sum(operation.is_a(method) for operation in self.refused)

    def _refuse(self, operation: Operation[T]) -> None:
        if self.is_away(operation):
            self.refused.append(operation)
            raise self.error("the store is away")

    def _reply(self, operation: Operation[T], result: T) -> T:
        if self.loses_reply(operation):
            self.refused.append(operation)
            raise UnknownOutcomeError("the reply was lost")
        return result


class Times:
    """A rule that holds for the first few calls of an operation."""

    def __init__(self, method: Method, count: int) -> None:
        self._method = method
        self._left = count

    def __call__(self, operation: Operation[Any]) -> bool:
        if operation.is_a(self._method) and self._left:
            self._left -= 1
            return True
        return False


@pytest.fixture
def store(url: str) -> Iterator[FlakyStore]:
    store = FlakyStore(open_store(url))
    yield store
    store.inner.close()


@pytest.fixture
def app(store: FlakyStore) -> App:
    """An app on a store that goes away; jobs are tried again at once."""
    retry = Retry(max_attempts=3, initial_delay=0.01)
    return App(store.inner.url, store=cast(Store, store), retry=retry)

"""What every wrapper around a store passes on: all but the operations, which it makes itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.clock import Clock
from fencepost.core.crypto.keyring import KeyRing
from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.interface.store import Facets, Store
from fencepost.store.plan import Operation

T = TypeVar("T")


class WrappedStore(Store):
    """A store around another one; a wrapper overrides what it changes."""

    def __init__(self, store: Store, facets: Facets) -> None:
        super().__init__(facets)
        self._store = store

    # What the store inside says of itself; nobody sets it here.

    @property
    def url(self) -> str:  # type: ignore[override]  # read-only
        return self._store.url

    @property
    def clock(self) -> Clock:  # type: ignore[override]  # read-only
        return self._store.clock

    @property
    def tidy_interval(self) -> float | None:  # type: ignore[override]  # read-only
        return self._store.tidy_interval

    @property
    def keys(self) -> KeyRing | None:  # type: ignore[override]  # read-only
        return self._store.keys

    def run(self, operation: Operation[T]) -> T:
        return self._store.run(operation)

    async def run_async(self, operation: Operation[T]) -> T:
        return await self._store.run_async(operation)

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self._store.run_in(conn, make, must_be_open=must_be_open)

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return await self._store.run_in_async(conn, make, must_be_open=must_be_open)

    def close(self) -> None:
        self._store.close()

    def listen(self, topic: Topic) -> Listener:
        return self._store.listen(topic)

    def migrate(self) -> list[str]:
        return self._store.migrate()

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._store.pending_migrations()

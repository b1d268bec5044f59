"""The SQLite store: one file, a writer that commits in groups, and readers beside it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fencepost.clock import Clock, SystemClock
from fencepost.errors import StoreUnavailableError
from fencepost.store.chores import Chores
from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.interface.store import Store
from fencepost.store.notify import topics_of
from fencepost.store.plan import Effect, Operation
from fencepost.store.sqlite.engine.database import LOCK_TIMEOUT, Database
from fencepost.store.sqlite.engine.group_commit import GroupWriter
from fencepost.store.sqlite.engine.notification import Bell
from fencepost.store.sqlite.facets import facets
from fencepost.store.sqlite.jobs.catalog import Catalog, Env

T = TypeVar("T")


class SqliteStore(Store):
    """Jobs in one SQLite file, shared by the processes of one machine."""

    def __init__(
        self,
        path: str,
        *,
        url: str | None = None,
        clock: Clock | None = None,
        durability: str = "power",
        patience: float = LOCK_TIMEOUT,
        group: str | None = None,
    ) -> None:
        self.url = url or f"sqlite:///{path}"
        self.clock = clock or SystemClock()
        # Writes run one at a time, reads beside them: each side remembers lanes for itself.
        catalog, chores = Catalog(), Chores(self.clock)
        self._database = Database(
            path,
            clock=self.clock,
            durability=durability,
            patience=patience,
            group=group,
            on_rollback=catalog.forget,
        )
        env = Env(self.clock, catalog, chores, self._database)
        super().__init__(facets(env, env._replace(catalog=Catalog()), self.url))
        try:
            self._bell = Bell(f"{self._database.path}.d", self._database.access)
        except OSError as error:
            self._database.close()
            raise StoreUnavailableError(f"cannot open {self._database.path}.d: {error}") from error
        self._writer = GroupWriter(self._database, self._ring)
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="fencepost-sqlite-read")

    # Running operations.

    def run(self, operation: Operation[T]) -> T:
        if operation.effect is Effect.READ:
            return self._database.read(operation)
        result: T = self._database.transact([operation])[0]
        # Rung at the commit: whoever wakes sees the job now, and its own commit follows ours in
        # the log, so that nothing it records can outlive what it was based on.
        self._ring(operation, result)
        if operation.effect is Effect.WRITE:
            self._database.sync()
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        self._database.check()
        if operation.effect is Effect.READ:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._readers, self._database.read, operation)
        result: T = await self._writer.run(operation)
        return result

    def _ring(self, operation: Operation[Any], result: Any) -> None:
        self._bell.ring(topics_of(operation, result))

    def close(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        self._database.close()
        self._bell.close()

    def listen(self, topic: Topic) -> Listener:
        self._database.check()
        return self._bell.listen(topic, self.clock.new_id().hex())

    def migrate(self) -> list[str]:
        """Return nothing: opening the file has brought its schema up to date."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._database.pending_migrations()

"""The SQLite store: one file, a writer that commits in groups, and two readers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from fencepost.clock import Clock, SystemClock
from fencepost.errors import StoreUnavailableError
from fencepost.store.chores import Chores
from fencepost.store.interface.joins import NoJoins
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.notify import topics_of
from fencepost.store.plan import Effect, Operation
from fencepost.store.sqlite.engine.database import LOCK_TIMEOUT, Database
from fencepost.store.sqlite.engine.group_commit import GroupWriter
from fencepost.store.sqlite.engine.notification import Notifier
from fencepost.store.sqlite.facets import facets
from fencepost.store.sqlite.jobs.catalog import Catalog, Env
from fencepost.store.sqlite.records.doctor import examine_file

T = TypeVar("T")


class SqliteStore(Store):
    """Jobs in one SQLite file, shared by the processes of one machine."""

    hands_over = True

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
        # Reads run beside writes: each side caches lanes for itself.
        catalog, chores = Catalog(), Chores(self.clock)
        self._database = Database(
            path,
            clock=self.clock,
            durability=durability,
            patience=patience,
            group=group,
            on_rollback=catalog.forget,
        )
        env = Env(self.clock, catalog, chores, partial(examine_file, self._database))
        reading = env._replace(catalog=Catalog())
        super().__init__(facets(env, reading, NoJoins(self.url)))
        self._notifier = self._open_notifier()
        self._writer = GroupWriter(self._database, self._notify)
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="fencepost-sqlite-read")
        self._long_readers = ThreadPoolExecutor(1, thread_name_prefix="fencepost-sqlite-long-read")

    def _open_notifier(self) -> Notifier:
        folder = f"{self._database.path}.d"
        try:
            return Notifier(folder, self._database.access)
        except StoreUnavailableError:
            self._database.close()
            raise
        except OSError as error:
            self._database.close()
            raise StoreUnavailableError(f"cannot open {folder}: {error}") from error

    def run(self, operation: Operation[T]) -> T:
        if operation.meanwhile is not None:
            operation.meanwhile()  # now: another process may hold the lock for long
        if operation.declaration.effect is Effect.READ:
            return self._database.read(operation)
        result: T = self._database.transact([operation])[0]
        # Notified at the commit, before the disk: a woken worker sees the job now, and its own
        # commit follows ours in the log, so that a power cut cannot keep only the later one.
        self._notify(operation, result)
        if operation.declaration.effect is Effect.WRITE:
            self._database.sync()
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        self._database.check()
        if operation.declaration.effect is Effect.READ:
            loop = asyncio.get_running_loop()
            is_long = operation.declaration.is_long
            readers = self._long_readers if is_long else self._readers
            return await loop.run_in_executor(readers, self._database.read, operation)
        result: T = await self._writer.run(operation)
        return result

    def _notify(self, operation: Operation[Any], result: Any) -> None:
        self._notifier.notify(topics_of(operation, result))

    def close(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        self._long_readers.shutdown()
        self._database.close()
        self._notifier.close()

    def listen(self, topic: Topic) -> Listener:
        self._database.check()
        return self._notifier.listen(topic, self.clock.new_id().hex())

    def migrate(self) -> list[str]:
        """Return nothing: opening the file has applied all migrations."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._database.pending_migrations()

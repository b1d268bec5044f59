"""The memory store: one world of jobs, and a lock under which operations run one at a time."""

from __future__ import annotations

import os
import threading
from typing import TypeVar

from fencepost.clock import Clock
from fencepost.errors import ConfigurationError, ForkedStoreError, StoreUnavailableError
from fencepost.store.interface.joins import JoinsFacet, NoJoins
from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.interface.store import Store
from fencepost.store.memory.engine.notification import Bells
from fencepost.store.memory.facets import facets
from fencepost.store.memory.world import MemoryWorld
from fencepost.store.plan import Operation, Row, Statement, run_plan

T = TypeVar("T")


class NoEngine:
    """Refuses statements: there is nothing beneath this store that could execute one."""

    def execute(self, statement: Statement) -> list[Row]:
        raise ConfigurationError("this operation was made by another store; run it there")


class MemoryStore(Store):
    """JobTable in this process's memory; another store, or another process, sees none of them."""

    def __init__(self, *, url: str = "memory://", clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.world = MemoryWorld(clock)
        super().__init__(facets(self.world, self._joins()))
        self._bells = Bells()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._is_closed = False

    def _joins(self) -> JoinsFacet:
        return NoJoins(self.url)

    # Running operations.

    def run(self, operation: Operation[T]) -> T:
        """Execute *operation*; whatever it raises, it has then changed nothing."""
        self._check_process()
        with self._lock:
            self._check_open()
            try:
                result = run_plan(operation.start(), NoEngine())
            except BaseException:
                self.world.journal.undo()
                self.world.jobs.slots.forget_touches()
                raise
            assert self.world.jobs.slots.is_quiet, "a slot may have come free, and nobody looked"
            topics = self.world.journal.keep()
        self._bells.ring(topics)
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        """Execute *operation* at once: it takes microseconds and waits for nothing but the lock."""
        return self.run(operation)

    def close(self) -> None:
        self._is_closed = True
        self._bells.close()

    def listen(self, topic: Topic) -> Listener:
        self._check_process()
        self._check_open()
        return self._bells.listen(topic)

    def migrate(self) -> list[str]:
        """Return nothing: there is no schema."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        """Return nothing: there is no schema."""
        return []

    def _check_process(self) -> None:
        # Looked at before the lock is: a child may have been forked while a thread held it.
        if os.getpid() != self._pid:
            raise ForkedStoreError("a memory store does not survive fork(); open one in the child")

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailableError("this memory store is closed, and its jobs are gone")

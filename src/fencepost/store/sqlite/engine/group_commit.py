"""Group commit: all operations posted since the last transaction share the next one.

Two threads per process, started with the first awaited operation: one commits, the other forces
commits to the disk while the next group commits. A claim or a heartbeat is answered without waiting
for the disk. If an operation fails, its group is rolled back and each member is run alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from fencepost.core.bounds import GROUP_MAX
from fencepost.errors import StoreUnavailableError
from fencepost.store.group_commit import Answer, Posted, deliver, drain
from fencepost.store.plan import Effect, Operation
from fencepost.store.sqlite.engine.database import Database
from fencepost.store.sqlite.engine.errors import NotBegunError


class GroupWriter:
    """Runs awaited operations on a thread, many to a transaction."""

    def __init__(
        self, database: Database, on_commit: Callable[[Operation[Any], Any], None]
    ) -> None:
        self._database = database
        self._on_commit = on_commit
        self._posted: deque[Posted] = deque()
        self._committed: deque[list[Answer]] = deque()
        self._to_commit = threading.Semaphore(0)
        self._to_sync = threading.Semaphore(0)
        self._is_stopping = False
        self._threads: list[threading.Thread] = []
        self._start_mutex = threading.Lock()

    async def run(self, operation: Operation[Any]) -> Any:
        """Post *operation* and wait for its answer."""
        if self._is_stopping:
            raise StoreUnavailableError("this store has been closed")
        self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._posted.append(Posted(operation, future, loop))
        self._to_commit.release()
        return await future

    def close(self) -> None:
        """Finish what was posted, then end the threads."""
        self._is_stopping = True
        for semaphore, thread in zip((self._to_commit, self._to_sync), self._threads, strict=False):
            semaphore.release()
            thread.join()

    def _start(self) -> None:
        if self._threads:
            return
        with self._start_mutex:
            if not self._threads:
                names = {
                    "fencepost-sqlite-commit": self._commit_loop,
                    "fencepost-sqlite-sync": self._sync_loop,
                }
                self._threads = [
                    threading.Thread(target=target, name=name, daemon=True)
                    for name, target in names.items()
                ]
                for thread in self._threads:
                    thread.start()

    def _commit_loop(self) -> None:
        while True:
            self._to_commit.acquire()
            group = drain(self._posted, GROUP_MAX)
            if group:
                self._commit(group)
            elif self._is_stopping:
                return

    def _commit(self, group: Sequence[Posted]) -> None:
        answers = self._transact(group)
        early = [a for a in answers if a.error or a.posted.operation.effect is not Effect.WRITE]
        late = [
            a for a in answers if not (a.error or a.posted.operation.effect is not Effect.WRITE)
        ]
        deliver(early)
        if late:
            self._committed.append(late)
            self._to_sync.release()
        for answer in answers:
            if answer.error is None:
                # A failed notification must not end this thread.
                with suppress(Exception):
                    self._on_commit(answer.posted.operation, answer.result)

    def _transact(self, group: Sequence[Posted]) -> list[Answer]:
        try:
            results = self._database.transact([posted.operation for posted in group])
        except NotBegunError as error:
            # Not one by one: each would wait as long for the same error.
            return [Answer(posted, None, error) for posted in group]
        except Exception as error:  # noqa: BLE001 - each operation gets its own error below
            if len(group) == 1:
                return [Answer(group[0], None, error)]
            return [answer for posted in group for answer in self._transact([posted])]
        return [Answer(posted, result, None) for posted, result in zip(group, results, strict=True)]

    def _sync_loop(self) -> None:
        while True:
            self._to_sync.acquire()
            groups = drain(self._committed, GROUP_MAX)
            if groups:
                self._sync([answer for group in groups for answer in group])
            elif self._is_stopping:
                return

    def _sync(self, answers: list[Answer]) -> None:
        try:
            self._database.sync()
        except Exception as error:  # noqa: BLE001 - every waiting caller gets the error
            answers = [Answer(answer.posted, None, error) for answer in answers]
        deliver(answers)

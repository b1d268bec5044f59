"""Group commit: everything posted since the last transaction shares the next one.

Two threads a process, started with the first awaited operation: one commits, one forces commits to
the disk. Meanwhile the next group commits; a claim or a heartbeat is answered without waiting
for the disk. If an operation fails, its group is rolled back and each member is run alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fencepost.core.limits import GROUP_MAX
from fencepost.errors import StoreUnavailableError
from fencepost.store.plan import Effect, Operation
from fencepost.store.sqlite.database import Database


class _Posted(NamedTuple):
    operation: Operation[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class _Answer(NamedTuple):
    posted: _Posted
    result: Any
    error: BaseException | None


class GroupWriter:
    """Runs awaited operations on a thread, many to a transaction."""

    def __init__(
        self, database: Database, on_commit: Callable[[Operation[Any], Any], None]
    ) -> None:
        self._database = database
        self._on_commit = on_commit
        self._posted: deque[_Posted] = deque()
        self._committed: deque[list[_Answer]] = deque()
        self._news = threading.Semaphore(0)
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
        self._posted.append(_Posted(operation, future, loop))
        self._news.release()
        return await future

    def close(self) -> None:
        """Finish what was posted, then end the threads."""
        self._is_stopping = True
        for semaphore, thread in zip((self._news, self._to_sync), self._threads, strict=False):
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
            self._news.acquire()
            group = _drain(self._posted, GROUP_MAX)
            if group:
                self._commit(group)
            elif self._is_stopping:
                return

    def _commit(self, group: Sequence[_Posted]) -> None:
        answers = self._transact(group)
        early = [a for a in answers if a.error or a.posted.operation.effect is not Effect.WRITE]
        late = [
            a for a in answers if not (a.error or a.posted.operation.effect is not Effect.WRITE)
        ]
        _deliver(early)
        if late:
            self._committed.append(late)
            self._to_sync.release()
        for answer in answers:
            if answer.error is None:
                # Telling others is a courtesy; this thread, on which all depends, goes on.
                with suppress(Exception):
                    self._on_commit(answer.posted.operation, answer.result)

    def _transact(self, group: Sequence[_Posted]) -> list[_Answer]:
        try:
            results = self._database.transact([posted.operation for posted in group])
        except Exception as error:  # noqa: BLE001 - each operation gets its own error below
            if len(group) == 1:
                return [_Answer(group[0], None, error)]
            return [answer for posted in group for answer in self._transact([posted])]
        return [
            _Answer(posted, result, None) for posted, result in zip(group, results, strict=True)
        ]

    def _sync_loop(self) -> None:
        while True:
            self._to_sync.acquire()
            groups = _drain(self._committed, GROUP_MAX)
            if groups:
                self._sync([answer for group in groups for answer in group])
            elif self._is_stopping:
                return

    def _sync(self, answers: list[_Answer]) -> None:
        try:
            self._database.sync()
        except Exception as error:  # noqa: BLE001 - every waiting caller must be told
            answers = [_Answer(answer.posted, None, error) for answer in answers]
        _deliver(answers)


def _drain(queue: deque[Any], limit: int) -> list[Any]:
    taken: list[Any] = []
    while queue and len(taken) < limit:
        taken.append(queue.popleft())
    return taken


def _deliver(answers: Sequence[_Answer]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        by_loop[answer.posted.loop].append(answer)
    for loop, batch in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, batch)
        except RuntimeError:
            continue  # its loop was closed: nobody waits for the answer any more


def _resolve(answers: Sequence[_Answer]) -> None:
    for (_, future, _), result, error in answers:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

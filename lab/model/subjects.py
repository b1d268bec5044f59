"""The stores under test: how each is opened, emptied, opened again, and cut off."""

from __future__ import annotations

import asyncio
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import psycopg
from tests.servers.wiping import wipe_through
from tests.store.postgres.cutting import Proxy
from tests.store.redis.cutting import HARMLESS, RedisProxy

from fencepost.core.values.times import to_us
from fencepost.errors import StoreError, StoreUnavailableError, UnknownOutcomeError
from fencepost.generators import delegate
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation, Plan, Row, Statement
from fencepost.store.postgres.store import PostgresStore
from fencepost.store.redis.partitions.store import PartitionedStore
from fencepost.store.redis.store import RedisStore
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock
from lab.model.names import NAMED, Names
from lab.redis import own_prefix, wipe

T = TypeVar("T")

ID_BEGINS = bytes.fromhex(NAMED[0][:4])


class StoppedClock(FakeClock):
    """A clock that is set; a store that sleeps on it, to wait for its engine, moves no time."""

    def set(self, now: datetime) -> None:
        with self._lock:
            self._now_us = to_us(now)

    def sleep(self, seconds: float) -> None:
        """Return at once: what is waited for goes by real time, not by this clock's."""

    def new_id(self) -> bytes:
        """Return an id that begins as the model's do: a search by the beginning finds the same."""
        return ID_BEGINS + super().new_id()[len(ID_BEGINS) :]


class Subject(ABC):
    """One store, and the names that it has given."""

    title: str
    has_wire = False
    """Whether the store can be cut off from its engine in mid-call."""
    is_spread = False
    """Whether its queues are in different partitions; see ``partitions.py``."""
    aside: ThreadPoolExecutor | None = None
    """Where to ask it, if it is worth the while to do something else until it answers."""

    def __init__(self) -> None:
        self.clock = StoppedClock()
        self.names = Names()
        self.is_async = False
        self._loop = asyncio.new_event_loop()
        self.store = self.open()

    @abstractmethod
    def open(self) -> Store:
        """Open the store as a process would that starts."""

    @abstractmethod
    def empty(self) -> None:
        """Remove all that the store holds."""

    def reset(self, *, is_async: bool) -> None:
        """Begin again with nothing, to be run in one colour."""
        self.is_async = is_async
        self.names = Names()
        self.clear()

    def clear(self) -> None:
        """Become as a new store."""
        self.close_store()
        self.empty()
        self.store = self.open()

    def reopen(self) -> None:
        """Close the store and open it again: what it had in memory is gone."""
        self.close_store()
        self.store = self.open()

    def close_store(self) -> None:
        self.store.close()

    def close(self) -> None:
        self.close_store()
        self._loop.close()

    # Running.

    def run(self, operation: Operation[T]) -> T:
        if self.is_async:
            return self._loop.run_until_complete(self.store.run_async(operation))
        return self.store.run(operation)

    def fail(self, operation: Operation[Any]) -> None:
        """Let the operation do all that it does, and fail just before its commit."""
        try:
            self.run(_undone(operation))
        except CutError:
            return
        raise AssertionError(f"{self.title} swallowed the failure of {operation.name}")

    def lose(self, make: Callable[[Store], Operation[Any]], *, is_heard: bool) -> bool | None:
        """Cut the way to the engine in mid-call; tell whether it was done, None if unknown."""
        raise NotImplementedError


class CutError(Exception):
    """What the plan of an operation raises that must not be committed."""


def _undone(operation: Operation[Any]) -> Operation[Any]:
    def start() -> Plan[Any]:
        yield from delegate(operation.start(), _in_transaction)
        raise CutError(operation.name)

    return msgspec.structs.replace(operation, start=start)


def _in_transaction(statement: Statement) -> Plan[list[Row]]:
    """What commits by itself could not be taken back, so it must not."""
    if not statement.prepares:
        statement = msgspec.structs.replace(statement, alone=False)
    return (yield statement)


class MemorySubject(Subject):
    title = "memory"

    def open(self) -> Store:
        return MemoryStore(clock=self.clock)

    def empty(self) -> None:
        """Do nothing: the next store is another."""

    def reopen(self) -> None:
        """Do nothing: what a memory store held would be gone."""


class SqliteSubject(Subject):
    title = "sqlite"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fencepost-model-", dir=_quick_folder())
        self._path = os.path.join(self._folder.name, "jobs.db")
        super().__init__()

    def open(self) -> Store:
        return SqliteStore(self._path, clock=self.clock, durability="process")

    def empty(self) -> None:
        for name in os.listdir(self._folder.name):
            path = os.path.join(self._folder.name, name)
            if os.path.isfile(path):
                os.unlink(path)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def _quick_folder() -> str | None:
    """Return a folder in memory, if the system has one: no test here is about the disk."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


# The tables are next to empty: to plan a question takes ten times as long as to answer it.
QUICK = "options=-c%20plan_cache_mode%3Dforce_generic_plan%20-c%20jit%3Doff"


class PostgresSubject(Subject):
    title = "postgres"
    has_wire = True
    store: PostgresStore

    def __init__(self, url: str) -> None:
        self._url = f"{url}{'&' if '?' in url else '?'}{QUICK}"
        self._admin = psycopg.connect(url, autocommit=True)
        self._proxy = Proxy(url)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fencepost-model")
        self.aside = self._thread
        self._wired: PostgresStore | None = None
        """Another process's store, as it were, which reaches the server through the proxy."""
        super().__init__()
        self.store.migrate()

    def open(self) -> PostgresStore:
        return PostgresStore(self._url, clock=self.clock)

    def empty(self) -> None:
        wipe_through(self._admin)

    def clear(self) -> None:
        """Empty the tables, and forget what was in them; a new connection would take 40 ms."""
        self.empty()
        for store in (self.store, self._wired):
            if store is not None:
                store._env.catalog.forget()

    def close_store(self) -> None:
        super().close_store()
        if self._wired is not None:
            self._wired.close()
            self._wired = None

    def close(self) -> None:
        super().close()
        self._thread.shutdown()
        self._proxy.close()
        self._admin.close()

    def lose(self, make: Callable[[Store], Operation[Any]], *, is_heard: bool) -> bool | None:
        if self._wired is None:
            self._wired = PostgresStore(f"{self._proxy.url}?{QUICK}", clock=self.clock)
        self._wired.run(self._wired.settings.app_limit())  # so that it is connected
        if is_heard:
            self._proxy.cut_next_answer()
        else:
            self._proxy.cut_next_request()
        try:
            self._wired.run(make(self._wired))
        except StoreUnavailableError:
            return False
        except UnknownOutcomeError:
            return None
        finally:
            self._disarm(self._wired)
        return True

    def _disarm(self, store: Store) -> None:
        """Cut something else, should the call have had nothing to ask of the server."""
        if self._proxy.is_about_to_cut:
            with suppress(StoreError):
                store.run(store.settings.app_limit())


class RedisSubject(Subject):
    title = "redis"
    has_wire = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._prefix = own_prefix()
        self._proxy = RedisProxy(url)
        self._wired: RedisStore | None = None
        """Another process's store, as it were, which reaches the server through the proxy."""
        super().__init__()

    def open(self) -> Store:
        return RedisStore(self._url, clock=self.clock, prefix=self._prefix)

    def empty(self) -> None:
        wipe(self._url, self._prefix)

    def close_store(self) -> None:
        super().close_store()
        if self._wired is not None:
            self._wired.close()
            self._wired = None

    def close(self) -> None:
        super().close()
        self.empty()
        self._proxy.close()

    def fail(self, operation: Operation[Any]) -> None:
        """Let the operation read all that it reads, and fail at the first script that writes."""
        try:
            self.run(_unwritten(operation))
        except CutError:
            return
        raise AssertionError(f"{self.title} swallowed the failure of {operation.name}")

    def lose(self, make: Callable[[Store], Operation[Any]], *, is_heard: bool) -> bool | None:
        if self._wired is None:
            self._wired = RedisStore(self._proxy.url, clock=self.clock, prefix=self._prefix)
        self._proxy.cut_next_write(is_heard=is_heard)
        try:
            self._wired.run(make(self._wired))
        except StoreUnavailableError:
            return False
        except UnknownOutcomeError:
            return None
        finally:
            self._proxy.spare()
        return True


class PartitionsSubject(RedisSubject):
    """Redis with each queue in a partition of its own."""

    title = "partitions"
    has_wire = False
    is_spread = True

    def open(self) -> Store:
        url = f"{self._url}{'&' if '?' in self._url else '?'}partition=queue"
        return PartitionedStore(url, clock=self.clock, prefix=self._prefix)

    def empty(self) -> None:
        wipe(self._url, self._prefix.removesuffix("}:"))


def _unwritten(operation: Operation[Any]) -> Operation[Any]:
    def start() -> Plan[Any]:
        yield from delegate(operation.start(), _only_reading)
        raise CutError(operation.name)

    return msgspec.structs.replace(operation, start=start)


def _only_reading(statement: Statement) -> Plan[list[Row]]:
    """Each script that writes is whole by itself: before the first, nothing was done."""
    if statement.sql not in HARMLESS:
        raise CutError(statement.sql)
    return (yield statement)


SUBJECTS = ("memory", "sqlite", "postgres", "redis")
"""Those that are compared with each other."""
ALONE = ("partitions",)
"""Those that do not keep all that the others do."""


@contextmanager
def subjects(
    titles: tuple[str, ...], postgres_url: str | None, redis_url: str | None = None
) -> Iterator[list[Subject]]:
    """Open the stores that are named; *postgres_url* is a database that may be emptied."""
    with ExitStack() as stack:
        opened: list[Subject] = []
        for title in titles:
            opened.append(_subject(title, postgres_url, redis_url))
            stack.callback(opened[-1].close)
        yield opened


def _subject(title: str, postgres_url: str | None, redis_url: str | None) -> Subject:
    match title:
        case "memory":
            return MemorySubject()
        case "sqlite":
            return SqliteSubject()
        case "postgres":
            assert postgres_url is not None
            return PostgresSubject(postgres_url)
        case "redis":
            assert redis_url is not None
            return RedisSubject(redis_url)
        case "partitions":
            assert redis_url is not None
            return PartitionsSubject(redis_url)
        case _:
            known = ", ".join((*SUBJECTS, *ALONE))
            raise ValueError(f"no store is called {title!r}; there are {known}")

"""The PostgreSQL store: connections, groups that share a commit, and callers' own transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg

from fencepost.clock import Clock, SystemClock
from fencepost.store.chores import Chores
from fencepost.store.group_commit import Answer
from fencepost.store.interface.listener import Listener, Topic
from fencepost.store.interface.store import Store
from fencepost.store.notify import topics_of
from fencepost.store.plan import Operation
from fencepost.store.postgres.engine import schema
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.errors import STALE_NUMBERS, translate
from fencepost.store.postgres.engine.group_commit import GroupRunner, Runner, run_in, run_in_async
from fencepost.store.postgres.engine.notification import Bell
from fencepost.store.postgres.engine.notifier import Ringer
from fencepost.store.postgres.engine.session import Session
from fencepost.store.postgres.engine.url import parse
from fencepost.store.postgres.facets import facets
from fencepost.store.postgres.jobs.catalog import Catalog, Env
from fencepost.store.postgres.jobs.rounds import TIDY_INTERVAL, Rounds
from fencepost.store.postgres.joins import connections as callers
from fencepost.store.postgres.joins import operations as joining
from fencepost.store.postgres.joins.preparation import preparations

T = TypeVar("T")

PATIENCE = 10.0


class PostgresStore(Store):
    """Jobs in one PostgreSQL database, shared by workers on many machines."""

    tidy_interval = TIDY_INTERVAL

    def __init__(self, url: str, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        address = parse(url)
        self.url = url
        self.clock = clock or SystemClock()
        self._connections = Connections(address, clock=self.clock, patience=patience)
        self._env = Env(self.clock, Catalog(), Chores(self.clock), Rounds(), self._connections)
        super().__init__(facets(self._env))
        self._ringer = Ringer(self._connections)
        postscript, forget = self._ringer.postscript, self._env.catalog.forget
        self._runner = Runner(self._connections, postscript=postscript, forget=forget)
        self._group = GroupRunner(
            self._connections, postscript=postscript, forget=forget, note=self._tell
        )
        self._bell = Bell(self._connections)
        self._is_checked = False
        self._places: set[joining.Place] = set()
        """Where connections of callers have led that are known to lead to this database."""
        self._joined_by: WeakSet[Any] = WeakSet()
        """Connections of callers that have been used."""

    # Running operations.

    def run(self, operation: Operation[T]) -> T:
        self._check_schema()
        try:
            result = self._runner.run(operation)
        except BaseException:
            self._ringer.forget(operation)
            raise
        self._ringer.ring(operation, topics_of(operation, result))
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        if not self._is_checked:
            await asyncio.to_thread(self._check_schema)
        return await self._group.run(operation)

    def _tell(self, answer: Answer) -> None:
        """Have news told of what was awaited, also if whoever did has been cancelled meanwhile."""
        operation = answer.posted.operation
        if answer.error is not None:
            self._ringer.forget(operation)
        else:
            self._ringer.ring(operation, topics_of(operation, answer.result))

    # In a caller's own transaction.

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        connection = callers.connection_of(conn)
        env = self._env.joined()
        operation = make(self._view(env))
        with callers.whole(connection, must_be_open=must_be_open):
            place = joining.place_of(connection)
            if place not in self._places:
                theirs = run_in(connection, joining.IDENTIFY)
                self._admit(place, self.run(joining.IDENTIFY), theirs)
            for before in self._preparations(operation, connection):
                self.run(before)
            env.catalog.copy(self._env.catalog)
            with self._forgetting():
                return run_in(connection, joining.joined(operation))

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        connection = await callers.async_connection_of(conn)
        env = self._env.joined()
        operation = make(self._view(env))
        async with callers.whole_async(connection, must_be_open=must_be_open):
            place = joining.place_of(connection)
            if place not in self._places:
                theirs = await run_in_async(connection, joining.IDENTIFY)
                self._admit(place, await self.run_async(joining.IDENTIFY), theirs)
            for before in self._preparations(operation, connection):
                await self.run_async(before)
            env.catalog.copy(self._env.catalog)
            with self._forgetting():
                return await run_in_async(connection, joining.joined(operation))

    def _view(self, env: Env) -> PostgresStore:
        """Return this store as one transaction sees it: what is new there may be rolled back."""
        view = copy(self)
        Store.__init__(view, facets(env))
        return view

    def _preparations(self, operation: Operation[Any], connection: Any) -> Iterator[Operation[Any]]:
        return preparations(self._env, operation, partial(self._is_new, connection))

    def _is_new(self, connection: Any) -> bool:
        """Tell whether *connection* is used for the first time, perhaps after a failover.

        Numbers that were lost are asked for then, since a statement that is refused for them takes
        the caller's transaction with it.
        """
        is_new = connection not in self._joined_by
        self._joined_by.add(connection)
        return is_new

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget what the server has lost, so that the caller's next transaction succeeds."""
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate != STALE_NUMBERS:
                raise
            self._env.catalog.forget()
            where = self._connections.address.shown
            raise translate(error, sent_commit=False, where=where) from error

    def _admit(
        self, place: joining.Place, ours: joining.Identity, theirs: joining.Identity
    ) -> None:
        joining.check_same(ours, theirs, place, self._connections.address.shown)
        self._places.add(place)

    def _check_schema(self) -> None:
        if not self._is_checked:
            self._on_session(schema.check)
            self._is_checked = True

    def _on_session(self, act: Callable[[Session], T]) -> T:
        try:
            with self._connections.lend() as session:
                return act(session)
        except psycopg.Error as error:
            where = self._connections.address.shown
            raise translate(error, sent_commit=False, where=where) from error

    def close(self) -> None:
        self._group.close()
        self._bell.close()
        self._ringer.close()
        self._connections.close()

    def listen(self, topic: Topic) -> Listener:
        return self._bell.listen(topic)

    def migrate(self) -> list[str]:
        return self._on_session(schema.apply)

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._on_session(schema.pending)

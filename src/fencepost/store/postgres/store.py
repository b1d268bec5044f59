"""The PostgreSQL store: connections, groups that share a commit, and callers' own transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, TypeVar

import psycopg

from fencepost.clock import Clock, SystemClock
from fencepost.store.chores import Chores
from fencepost.store.group_commit import Answer
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.notify import topics_of
from fencepost.store.plan import Operation
from fencepost.store.postgres.engine import schema
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.errors import STALE_NUMBERS, translate
from fencepost.store.postgres.engine.group_commit import GroupRunner
from fencepost.store.postgres.engine.notification import NotificationReceiver, NotificationSender
from fencepost.store.postgres.engine.runner import Runner, RunnerHooks
from fencepost.store.postgres.engine.session import ServerSession
from fencepost.store.postgres.engine.url import parse
from fencepost.store.postgres.facets import facets
from fencepost.store.postgres.jobs.catalog import Catalog, Env
from fencepost.store.postgres.jobs.upkeep import TIDY_INTERVAL, TidyRounds
from fencepost.store.postgres.joins.asyncpg import CallerSessions, CastStatements, as_psycopg
from fencepost.store.postgres.joins.connections import (
    async_connection_of,
    connection_of,
    whole,
    whole_async,
)
from fencepost.store.postgres.joins.operations import (
    IDENTIFY,
    Identity,
    Place,
    check_same,
    joined,
    place_of,
    preparations,
)
from fencepost.store.postgres.joins.transaction import run_in, run_in_async

T = TypeVar("T")

PATIENCE = 10.0


class PostgresStore(Store):
    """Jobs in one PostgreSQL database, shared by workers on many machines."""

    tidy_interval = TIDY_INTERVAL
    hands_over = True

    def __init__(self, url: str, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        address = parse(url)
        self.url = url
        self.clock = clock or SystemClock()
        self._connections = Connections(address, clock=self.clock, patience=patience)
        self._env = Env(self.clock, Catalog(), Chores(self.clock), TidyRounds(), self._connections)
        super().__init__(facets(self._env))
        self._sender = NotificationSender(self._connections)
        hooks = RunnerHooks(self._sender.postscript, self._env.catalog.forget, self._notify)
        self._runner = Runner(self._connections, hooks)
        self._group = GroupRunner(self._connections, hooks)
        self._receiver = NotificationReceiver(self._connections)
        self._is_checked = False
        self._places: set[Place] = set()
        """Addresses of callers' connections that are known to lead to this database."""
        self._admitted = CallerSessions()
        """The same for connections that do not say where they lead."""
        self._joined_by = CallerSessions()
        self._statements = CastStatements()

    def run(self, operation: Operation[T]) -> T:
        self._check_schema()
        try:
            result = self._runner.run(operation)
        except BaseException:
            self._sender.forget(operation)
            raise
        self._sender.send(operation, topics_of(operation, result))
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        if not self._is_checked:
            await asyncio.to_thread(self._check_schema)
        return await self._group.run(operation)

    def _notify(self, answer: Answer) -> None:
        """Notify of an awaited operation, also if its caller has been cancelled meanwhile."""
        operation = answer.posted.operation
        if answer.error is not None:
            self._sender.forget(operation)
        else:
            self._sender.send(operation, topics_of(operation, answer.result))

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        connection = connection_of(conn)
        env = self._env.joined()
        operation = make(self._view(env))
        with whole(connection, must_be_open=must_be_open):
            if not self._is_admitted(connection):
                theirs = run_in(connection, IDENTIFY)
                self._admit(connection, self.run(IDENTIFY), theirs)
            for before in self._preparations(operation, connection):
                self.run(before)
            env.catalog.copy(self._env.catalog)
            with self._forgetting():
                return run_in(connection, joined(operation))

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        connection = await async_connection_of(conn)
        env = self._env.joined()
        operation = make(self._view(env))
        async with whole_async(connection, must_be_open=must_be_open):
            if not self._is_admitted(connection):
                theirs = await run_in_async(connection, IDENTIFY)
                self._admit(connection, await self.run_async(IDENTIFY), theirs)
            for before in self._preparations(operation, connection):
                await self.run_async(before)
            env.catalog.copy(self._env.catalog)
            with self._forgetting():
                return await run_in_async(connection, joined(operation), self._statements)

    def _view(self, env: Env) -> PostgresStore:
        """Return this store as one transaction sees it: what is new there may be rolled back."""
        view = copy(self)
        Store.__init__(view, facets(env))
        return view

    def _preparations(self, operation: Operation[Any], connection: Any) -> Iterator[Operation[Any]]:
        return preparations(self._env, operation, partial(self._is_new, connection))

    def _is_new(self, connection: Any) -> bool:
        """Return whether *connection* is used for the first time, perhaps after a failover.

        Then all numbers are asked for again: a statement that is refused because of a lost one
        would fail the caller's transaction.
        """
        is_new = connection not in self._joined_by
        self._joined_by.add(connection)
        return is_new

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget numbers that the server has lost, so that the next transaction succeeds."""
        try:
            yield
        except Exception as error:  # of either driver
            if getattr(error, "sqlstate", None) != STALE_NUMBERS:
                raise
            self._env.catalog.forget()
            where = self._connections.address.shown
            raise translate(as_psycopg(error), sent_commit=False, where=where) from error

    def _is_admitted(self, connection: Any) -> bool:
        """Return whether *connection* is known to lead to this store's database."""
        place = place_of(connection)
        return place in self._places or connection in self._admitted

    def _admit(self, connection: Any, ours: Identity, theirs: Identity) -> None:
        place = place_of(connection)
        check_same(ours, theirs, place, self._connections.address.shown)
        if place is None:
            self._admitted.add(connection)
        else:
            self._places.add(place)

    def _check_schema(self) -> None:
        if not self._is_checked:
            self._on_session(schema.check)
            self._is_checked = True

    def _on_session(self, act: Callable[[ServerSession], T]) -> T:
        try:
            with self._connections.lend() as session:
                return act(session)
        except psycopg.Error as error:
            where = self._connections.address.shown
            raise translate(error, sent_commit=False, where=where) from error

    def close(self) -> None:
        self._group.close()
        self._receiver.close()
        self._sender.close()
        self._connections.close()

    def listen(self, topic: Topic) -> Listener:
        return self._receiver.listen(topic)

    def migrate(self) -> list[str]:
        return self._on_session(schema.apply)

    def pending_migrations(self) -> list[tuple[str, str]]:
        return self._on_session(schema.pending)

"""The Redis store: documents, and commits that start again if what they read has changed."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fencepost.clock import Clock, SystemClock
from fencepost.errors import StoreError, StoreUnavailableError, UnknownOutcomeError
from fencepost.generators import delegate, drive, drive_async
from fencepost.store.chores import Chores
from fencepost.store.interface.joins import NoJoins
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.notify import topics_of
from fencepost.store.plan import Effect, Operation, Plan, Statement, Wakes
from fencepost.store.redis.documents.commit import Commit, StaleError, check_commit
from fencepost.store.redis.documents.held_jobs import HeldJobs
from fencepost.store.redis.engine.address import PREFIX, read_address
from fencepost.store.redis.engine.connections import BARRIER, Connections, ServerPin
from fencepost.store.redis.engine.errors import ServerChangedError
from fencepost.store.redis.engine.group_commit import SubmissionGroup
from fencepost.store.redis.engine.notification import Notifier
from fencepost.store.redis.facets import facets
from fencepost.store.redis.jobs.catalog import Catalog, Env, pack
from fencepost.store.redis.jobs.plain import PlainJobs, together

__all__ = ["PREFIX", "RedisStore"]

T = TypeVar("T")

PATIENCE = 10.0
TRIES_MAX = 1_000
CHANGES_MAX = 10
"""How often another server may take over within one operation."""
NOTHING = (0, -1)
"""Answers of a script that has written nothing: it has to start again, or jobs are refused."""


class RedisStore(Store):
    """Jobs in Redis, shared by the processes of many machines.

    What is given besides *url* replaces the options in it.
    """

    hands_over = True  # so the server claims while Python encodes what has ended
    before_commit: Callable[[Any], Plan[None]] | None = None
    """See ``Env``."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        patience: float = PATIENCE,
        prefix: str | None = None,
        durability: str | None = None,
    ) -> None:
        address = read_address(url, prefix=prefix, durability=durability)
        assert not address.is_partitioned, "see partitions/store.py"
        self.url = url
        self.clock = clock or SystemClock()
        self._connections = Connections(address, patience=patience)
        key_prefix = address.prefix.encode()
        env = Env(
            self.clock, key_prefix, Catalog(), Chores(self.clock), HeldJobs(), self.before_commit
        )
        super().__init__(facets(env, NoJoins(url)))
        self._env = env
        self._here = threading.local()  # whether the loop of this thread is about to block
        self._helper = ThreadPoolExecutor(1, thread_name_prefix="fencepost-redis")
        self._notifier = Notifier(self._connections, env)
        self._groups: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, SubmissionGroup[PlainJobs]
        ] = weakref.WeakKeyDictionary()

    def run(self, operation: Operation[T]) -> T:
        first: dict[str, Any] = {}  # what is passed with the first statement alone
        if operation.meanwhile is not None:
            first["meanwhile"] = partial(self._hand_over, operation.meanwhile)

        def perform(step: _Step) -> Any:
            given = {"pin": step.pin, **first}
            first.clear()
            return self._connections.run(*_words(step.statement), **given)

        return drive(self._steps(operation), perform)

    def _hand_over(self, meanwhile: Callable[[], None]) -> None:
        """Call *meanwhile* in a loop that is about to block: what it awaits is run by a thread."""
        self._here.is_blocked = True
        try:
            meanwhile()
        finally:
            self._here.is_blocked = False

    async def run_async(self, operation: Operation[T]) -> T:
        if getattr(self._here, "is_blocked", False):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._helper, self.run, operation)

        async def perform(step: _Step) -> Any:
            statement, pin = step
            if statement.sql == "enqueue" and pin is not None:
                answer = await self._group().post(statement.params[0])
                pin.is_confirmed = answer not in NOTHING  # waited for by the group
                return answer
            return await self._connections.run_async(*_words(statement), pin=pin)

        return await drive_async(self._steps(operation), perform)

    def _steps(self, operation: Operation[T]) -> Generator[_Step, Any, T]:
        """Yield the statements of an operation, its commit last; start again where it has to."""
        changes = 0
        for _ in range(TRIES_MAX):
            attempt = _Attempt(operation)
            try:
                result = yield from delegate(operation.start(), attempt.perform)
                news = self._news(attempt, operation, result)
                if attempt.commit is not None:
                    check_commit((yield _Step(attempt.commit, attempt.pin)))
                if self._connections.needs_barrier(attempt.pin):
                    yield _Step(Statement(BARRIER), attempt.pin)
            except StaleError:
                continue
            except ServerChangedError:
                changes += 1
                if changes == CHANGES_MAX:
                    raise _restless(operation) from None
                continue
            except StoreUnavailableError as error:
                raise attempt.judged(error) from None
            self._notifier.wake(topics_of(operation, result) - {Topic.READY})
            if news:
                with suppress(StoreError):  # it is done; a listener that is not woken polls
                    yield _Step(Statement("read", [b"", pack(news)]), None)
            return result
        raise _busy(operation)

    def _group(self) -> SubmissionGroup[PlainJobs]:
        """Return where submissions of this event loop meet."""
        loop = asyncio.get_running_loop()
        found = self._groups.get(loop)
        if found is None:

            async def send(batches: Sequence[PlainJobs]) -> Any:
                batch = batches[0] if len(batches) == 1 else together(batches, self._env.now)
                pin = ServerPin(Effect.WRITE)
                return await self._connections.run_async("enqueue", *batch.words, pin=pin)

            found = self._groups[loop] = SubmissionGroup(send)
        return found

    def _news(self, attempt: _Attempt, operation: Operation[Any], result: Any) -> list[list[bytes]]:
        """Have the commit notify listeners of other processes; return what to send without one.

        Scripts wake those who wait for jobs that can be claimed. All are notified of what changes
        without such a job, as when a limit is raised.
        """
        topics = topics_of(operation, result)
        commit: Commit | None = None if attempt.commit is None else attempt.commit.params[0]
        is_for_all = operation.declaration.wakes is Wakes.READY
        if commit is None or commit.lines_up or not is_for_all:
            topics.discard(Topic.READY)
        news = self._notifier.commands(topics)
        if commit is None:
            return news
        commit.commands += news
        return []

    def close(self) -> None:
        self._notifier.close()
        self._connections.close()
        self._helper.shutdown()

    def listen(self, topic: Topic) -> Listener:
        self._connections.check()
        return self._notifier.listen(topic)

    def migrate(self) -> list[str]:
        """Return nothing: documents need no schema."""
        return []

    def pending_migrations(self) -> list[tuple[str, str]]:
        return []


class _Step(NamedTuple):
    """A statement, and the server that it has to reach."""

    statement: Statement
    pin: ServerPin | None


class _Attempt:
    """One try of an operation: its commit is sent when its plan has ended."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.commit: Statement | None = None
        self.pin = ServerPin(operation.effect)
        self._has_written = False

    def perform(self, statement: Statement) -> Generator[_Step, Any, Any]:
        """Return the answer to a statement; raise StaleError for a commit that was not made."""
        if statement.sql == "commit" and not statement.alone:  # it waits for the end
            assert self.commit is None, "an operation has one commit"
            self.commit = statement
            return 1
        answer = yield _Step(statement, self.pin)
        if statement.sql == "commit":
            check_commit(answer)
        self._has_written |= statement.sql != "read" and answer not in NOTHING
        return answer

    def judged(self, error: StoreUnavailableError) -> StoreError:
        """Return the error of a whole operation, one script of which was surely not run.

        What a script before it has done, such as a claim, is not undone by that.
        """
        return UnknownOutcomeError(str(error)) if self._has_written else error


def _words(statement: Statement) -> tuple[Any, ...]:
    if statement.sql in ("commit", "enqueue"):
        (content,) = statement.params
        return (statement.sql, *content.words)
    return (statement.sql, *statement.params)


def _busy(operation: Operation[Any]) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{operation.name}: others changed the same jobs {TRIES_MAX:,} times; repeat it"
    )


def _restless(operation: Operation[Any]) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{operation.name}: another server took over {CHANGES_MAX} times in the middle of it; "
        f"look at the servers, and repeat it"
    )

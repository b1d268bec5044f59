"""Runs awaited operations on threads with a connection each, so that a loop never blocks.

Operations that were posted while the threads were busy are sent together: those whose first
statement is ``alone`` in one round trip and one commit. If one fails, nothing of the group was
done, and each is run separately.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import psycopg

from fencepost.core.bounds import GROUP_LOCK_TIMEOUT, GROUP_MAX
from fencepost.errors import FencepostError, StoreUnavailableError, UnknownOutcomeError
from fencepost.generators import Returned, begin, proceed
from fencepost.store.group_commit import Answer, Posted, deliver, drain
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.plan import Effect, Operation, Plan, Row, Statement, declaration_of
from fencepost.store.postgres.engine.connections import Connections, Dedicated
from fencepost.store.postgres.engine.errors import is_loss, translate
from fencepost.store.postgres.engine.runner import (
    NO_HOOKS,
    HeldUpError,
    Runner,
    RunnerHooks,
    Waiting,
)
from fencepost.store.postgres.engine.transaction import RELAX, Run, waiting

T = TypeVar("T")

CLAIM = declaration_of(QueueFacet.claim)

WRITERS_DEFAULT = 2
"""One waits for its commit while the other serves what has come meanwhile."""


class GroupRunner:
    """Runs awaited operations on threads, many to a commit; reads have threads of their own."""

    def __init__(
        self,
        connections: Connections,
        hooks: RunnerHooks = NO_HOOKS,
        *,
        threads: int = WRITERS_DEFAULT,
    ) -> None:
        self._connections = connections
        self._waiting = Waiting(connections, hooks)
        writers = partial(_Crew, connections, hooks, self._waiting)
        readers = partial(_Crew, connections, RunnerHooks(forget=hooks.forget), self._waiting)
        self._writing = _PostQueue("fencepost-postgres-write", threads, writers)
        self._reading = _PostQueue("fencepost-postgres-read", 1, readers)
        self._long_reading = _PostQueue("fencepost-postgres-long-read", 1, readers)

    async def run(self, operation: Operation[T]) -> T:
        """Post *operation* and wait for its answer; one cancelled before it starts is not run."""
        self._connections.check()
        queue = self._writing
        if operation.effect is Effect.READ:
            queue = self._long_reading if operation.declaration.is_long else self._reading
        result: T = await queue.post(operation)
        return result

    def close(self) -> None:
        """Finish what was posted, then end the threads; a second call does nothing."""
        self._writing.close()
        self._reading.close()
        self._long_reading.close()
        self._waiting.close()


class _PostQueue:
    """A queue of posted operations, and the threads that take from it."""

    def __init__(self, name: str, count: int, crew: Callable[[], _Crew]) -> None:
        self._crew = crew
        self._name = name
        self._count = count
        self._posted: deque[Posted] = deque()
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._is_stopping = False
        self._threads: list[threading.Thread] = []

    def post(self, operation: Operation[Any]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._mutex:
            if self._is_stopping:
                raise StoreUnavailableError("this store has been closed")
            self._posted.append(Posted(operation, future, loop))
            if not self._threads:
                self._start()
        # At once, although operations posted later in this turn of the loop may go to another
        # thread: a turn that runs handlers takes milliseconds.
        self._wakeups.put(None)
        return future

    def _start(self) -> None:
        self._threads = [
            threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True)
            for number in range(self._count)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        with self._mutex:
            self._is_stopping = True
        for _ in self._threads:
            self._wakeups.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        crew = self._crew()
        try:
            while True:
                self._wakeups.get()
                while group := drain(self._posted, GROUP_MAX):
                    crew.serve(group)
                if self._is_stopping:
                    return
        finally:
            crew.close()


class _Started(NamedTuple):
    posted: Posted
    plan: Plan[Any]
    statement: Statement


class _Crew:
    """Serves groups on one thread, with its own connection."""

    def __init__(self, connections: Connections, hooks: RunnerHooks, waiting: Waiting) -> None:
        self._hooks = hooks
        self._own = Dedicated(connections)
        self._where = connections.address.shown
        self._waiting = waiting
        self._runner = Runner(connections, hooks, self._own.lend)

    def close(self) -> None:
        self._own.close()

    def _deliver(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._hooks.note(answer)
        deliver(answers)

    def serve(self, group: Sequence[Posted]) -> None:
        """Run every operation of *group*, and answer it; never raises."""
        wanted = [posted for posted in group if not posted.future.cancelled()]
        try:
            self._serve_each(wanted if len(wanted) < 2 else self._serve_together(wanted))
        except BaseException as error:  # noqa: BLE001 - callers must see our bug
            self._deliver([Answer(posted, None, error) for posted in wanted])

    def _serve_each(self, group: Sequence[Posted]) -> None:
        for index, posted in enumerate(group):
            error: BaseException | None = None
            result = None
            try:
                result = self._runner.run(posted.operation, lock_timeout=GROUP_LOCK_TIMEOUT)
            except HeldUpError:
                self._waiting.post(posted)
                continue
            except Exception as raised:  # noqa: BLE001 - handed to the caller
                error = raised
            self._deliver([Answer(posted, result, error)])
            if error is not None and self._own.is_refused:
                # There is no server: answer the rest now, instead of a failed connection for each.
                self._deliver([Answer(other, None, error) for other in group[index + 1 :]])
                return

    def _serve_together(self, group: Sequence[Posted]) -> Sequence[Posted]:
        """Run what can share a round trip; return what has to run separately."""
        together, keyed, apart = self._sort(group)
        if len(together) + len(keyed) < 2:
            return group
        return self._ask(together) + self._ask(keyed) + apart

    def _ask(self, together: Sequence[_Started]) -> list[Posted]:
        """Run *together* in one round trip; return what has to run separately."""
        if len(together) < 2:
            return [started.posted for started in together]
        try:
            with self._own.lend() as session:
                session.answer_timeout = _patience(together)
                done = [s.posted.operation for s in together if not s.statement.prepares]
                settings = [*_relaxing(together), waiting(GROUP_LOCK_TIMEOUT)]
                rows = session.ask(
                    [*settings, *(s.statement for s in together)], self._hooks.postscript(done)
                )
        except (psycopg.Error, FencepostError) as error:
            return self._explain(together, error)
        return self._finish(together, rows[-len(together) :])

    def _sort(self, group: Sequence[Posted]) -> tuple[list[_Started], list[_Started], list[Posted]]:
        """Return operations that can share a round trip, those with one key, and the others.

        Operations without a key must not wait for a key that another transaction holds. Keys and
        leases are locked in one order, or two groups could deadlock. A single statement locks its
        own in that order, so an operation with several runs separately. Claims come last: claims
        under a limit wait for each other, whatever their group has locked before.
        """
        together: list[_Started] = []
        keyed: list[_Started] = []
        apart: list[Posted] = []
        for posted in group:
            plan = posted.operation.start()
            try:
                statement = begin(plan)
            except Exception:  # noqa: BLE001 - raised again when it runs separately
                apart.append(posted)
                continue
            if isinstance(statement, Returned) or not statement.alone or len(statement.keys) > 1:
                apart.append(posted)
            elif statement.keys:
                keyed.append(_Started(posted, plan, statement))
            else:
                together.append(_Started(posted, plan, statement))
        keyed.sort(key=lambda started: started.statement.keys[0])
        if sum(bool(started.statement.leases) for started in together) > 1:
            several = [started for started in together if len(started.statement.leases) > 1]
            apart += [started.posted for started in several]
            together = [started for started in together if started not in several]
        together.sort(key=_rank)
        return together, keyed, apart

    def _explain(self, together: Sequence[_Started], error: Exception) -> list[Posted]:
        """Answer operations that must not be repeated after *error*; return the others."""
        group = [started.posted for started in together]
        if isinstance(error, FencepostError):  # there was no connection
            self._deliver([Answer(posted, None, error) for posted in group])
            return []
        assert isinstance(error, psycopg.Error)
        if not is_loss(error) or group[0].operation.effect is Effect.READ:
            return group
        unknown = translate(error, sent_commit=True, where=self._where)
        unknown.__cause__ = error
        self._deliver(
            [Answer(s.posted, None, unknown) for s in together if not s.statement.prepares]
        )
        return [started.posted for started in together if started.statement.prepares]

    def _finish(self, together: Sequence[_Started], rows: Sequence[list[Row]]) -> list[Posted]:
        """Give each plan its rows; plans with more statements go on after the others are answered.

        Return operations that have only been prepared: they run from the start.
        """
        answers: list[Answer] = []
        further: list[_Started] = []
        prepared: list[Posted] = []
        for (posted, plan, statement), own in zip(together, rows, strict=True):
            try:
                following = proceed(plan, own)
            except Exception as error:  # noqa: BLE001 - a plan's own verdict, such as a duplicate
                answers.append(Answer(posted, None, error))
                continue
            if isinstance(following, Returned):
                answers.append(Answer(posted, following.value, None))
            elif statement.prepares:
                prepared.append(posted)
            else:
                further.append(_Started(posted, plan, following))
        self._deliver(answers)
        for posted, plan, statement in further:
            self._deliver([self._go_on(posted, plan, statement)])
        return prepared

    def _go_on(self, posted: Posted, plan: Plan[Any], statement: Statement) -> Answer:
        """Run the rest of a plan whose first statement was committed with the group."""
        try:
            with self._own.lend() as session:
                session.answer_timeout = posted.operation.timeout
                run = Run(session, posted.operation)
                run.has_committed = posted.operation.effect is not Effect.READ
                try:
                    return Answer(posted, run.resume(plan, statement), None)
                except psycopg.Error as error:
                    raise run.explain(error, self._where) from error
        except StoreUnavailableError as error:
            if posted.operation.effect is Effect.READ:
                return Answer(posted, None, error)
            # The connection is lost, but the first statement was committed.
            unknown = UnknownOutcomeError(f"{error}; a part was done: repeat it")
            unknown.__cause__ = error
            return Answer(posted, None, unknown)
        except Exception as error:  # noqa: BLE001 - handed to the caller
            return Answer(posted, None, error)


def _patience(together: Sequence[_Started]) -> float | None:
    """Return how long to wait for a silent server: the longest timeout in the group."""
    timeouts = [started.posted.operation.timeout for started in together]
    return None if None in timeouts else max(filter(None, timeouts))


def _rank(started: _Started) -> tuple[bool, tuple[str, ...]]:
    """Return the place of a statement in its group; those of equal rank stay in their order."""
    return started.posted.operation.declaration is CLAIM, tuple(started.statement.leases)


def _relaxing(together: Sequence[_Started]) -> list[Statement]:
    """Return what keeps a group of claims and heartbeats from waiting for the disk."""
    effects = {started.posted.operation.effect for started in together}
    return [RELAX] if effects == {Effect.LEASE} else []

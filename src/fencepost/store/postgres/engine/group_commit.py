"""Running operations: in the calling thread, posted by a loop, or in a caller's transaction.

What surely left nothing behind (a deadlock, a session that the server had ended before) is done
again; what may have been committed never is: the caller is told so, and repeats it with its key.

Awaited operations are run by threads with a connection each, so that a loop never blocks. Whatever
was posted while they were busy goes out together: those whose first statement is ``alone`` in one
round trip and one commit. If one fails, nothing of it happened, and each is run by itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.rows import tuple_row

from fencepost.clock import SystemClock
from fencepost.core.bounds import (
    GROUP_LOCK_TIMEOUT,
    GROUP_MAX,
    HELD_UP_PAUSE,
    HELD_UP_ROUND,
    HELD_UP_TRY,
    LOCK_TIMEOUT,
)
from fencepost.errors import FencepostError, StoreUnavailableError, UnknownOutcomeError
from fencepost.store.group_commit import Answer, Posted, deliver, drain
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.plan import (
    Effect,
    Operation,
    Plan,
    Row,
    Statement,
    declaration_of,
    run_plan,
    run_plan_async,
)
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.errors import (
    STALE_SESSION,
    is_loss,
    is_schema_missing,
    translate,
)
from fencepost.store.postgres.engine.search_path import EXCHANGE, restore
from fencepost.store.postgres.engine.session import NoAnswerError, Session
from fencepost.store.postgres.engine.transaction import RELAX, Run, waiting

T = TypeVar("T")

CLAIM = declaration_of(QueueFacet.claim)

Postscript = Callable[[Sequence[Operation[Any]]], Sequence[Statement]]
"""What to execute after the commit of operations, in the same round trip."""


def _nothing(_: Sequence[Operation[Any]]) -> Sequence[Statement]:
    return ()


Forget = Callable[[], None]
"""What drops the numbers that this process remembers, when the server has lost some."""


def _no_numbers() -> None:
    pass


Note = Callable[[Answer], None]
"""What looks at every answer, also one that nobody waits for any more."""


def _unnoted(_: Answer) -> None:
    pass


CONFLICTS_MAX = 5
"""How often an operation is done again because it met another."""
CONFLICT_PAUSE = 0.005
"""Seconds before the first repetition, at the most; each further one may wait twice as long."""
WRITERS_DEFAULT = 2
"""One waits for its commit while the other takes what has come meanwhile."""


class HeldUpError(Exception):
    """A lock could not be had in the time that was given for it; nothing was done."""

    def __init__(self, reason: FencepostError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Runner:
    """Runs operations one at a time, each on a connection that it is lent."""

    def __init__(
        self,
        connections: Connections,
        lend: Callable[[], AbstractContextManager[Session]] | None = None,
        postscript: Postscript = _nothing,
        forget: Forget = _no_numbers,
    ) -> None:
        self._lend = lend or connections.lend
        self._postscript = postscript
        self._forget = forget
        self._clock = connections.clock
        self._where = connections.address.shown

    def run(self, operation: Operation[T], *, lock_timeout: float | None = None) -> T:
        """Execute *operation* in this thread, as one transaction.

        With *lock_timeout*, HeldUpError is raised if a lock cannot be had in that time: surely
        nothing was done.
        """
        conflicts = 0
        has_changed_session = False
        while True:
            with self._lend() as session:
                session.answer_timeout = operation.timeout
                postscript = partial(self._postscript, [operation])
                run = Run(session, operation, postscript, lock_timeout)
                try:
                    return run.perform()
                except psycopg.Error as error:
                    if error.sqlstate in STALE_SESSION:
                        session.close()
                    if lock_timeout is not None and run.is_held_up(error):
                        raise HeldUpError(run.explain(error, self._where)) from error
                    if run.has_stale_numbers(error):
                        self._forget()
                    is_passing = run.is_conflict(error) or run.has_stale_numbers(error)
                    if is_passing and conflicts < CONFLICTS_MAX:
                        conflicts += 1
                    elif run.is_without_trace(error) and not (
                        has_changed_session or self._is_out_of_patience(operation, error)
                    ):
                        has_changed_session = True
                        continue
                    else:
                        raise run.explain(error, self._where) from error
            self._clock.sleep(self._clock.rng.uniform(0, CONFLICT_PAUSE * 2**conflicts))

    def _is_out_of_patience(self, operation: Operation[Any], error: psycopg.Error) -> bool:
        """Tell whether the caller waits no longer for a server that may be silent once more."""
        return operation.timeout is not None and isinstance(error, NoAnswerError)


class GroupRunner:
    """Runs awaited operations on threads, many to a commit; reads apart from the rest."""

    def __init__(
        self,
        connections: Connections,
        *,
        threads: int = WRITERS_DEFAULT,
        postscript: Postscript = _nothing,
        forget: Forget = _no_numbers,
        note: Note = _unnoted,
    ) -> None:
        self._connections = connections
        self._waiting = Waiting(connections, postscript, forget, note)
        post = self._waiting.post
        writers = partial(_Crew, connections, postscript, forget, note, post)
        readers = partial(_Crew, connections, _nothing, forget, _unnoted, post)
        self._writing = _Lane("fencepost-postgres-write", threads, writers)
        self._reading = _Lane("fencepost-postgres-read", 1, readers)

    async def run(self, operation: Operation[T]) -> T:
        """Post *operation* and wait for its answer; one cancelled before it starts is not run."""
        self._connections.check()
        lane = self._reading if operation.effect is Effect.READ else self._writing
        result: T = await lane.post(operation)
        return result

    def close(self) -> None:
        """Finish what was posted, then end the threads; a second call does nothing."""
        self._writing.close()
        self._reading.close()
        self._waiting.close()


class _Lane:
    """A queue of posted operations, and the threads that take from it."""

    def __init__(self, name: str, count: int, crew: Callable[[], _Crew]) -> None:
        self._crew = crew
        self._name = name
        self._count = count
        self._posted: deque[Posted] = deque()
        self._news: SimpleQueue[None] = SimpleQueue()
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
        # At once, although what else this turn of the loop posts may then go to another thread: a
        # turn that runs handlers takes milliseconds.
        self._news.put(None)
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
            self._news.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        crew = self._crew()
        try:
            while True:
                self._news.get()
                while group := drain(self._posted, GROUP_MAX):
                    crew.serve(group)
                if self._is_stopping:
                    return
        finally:
            crew.close()


class Waiting:
    """Operations that another transaction holds up, tried again and again by a thread of their own.

    So nobody else waits for them; each is given up after LOCK_TIMEOUT.
    """

    def __init__(
        self, connections: Connections, postscript: Postscript, forget: Forget, note: Note
    ) -> None:
        self._own = connections.dedicated()
        self._runner = Runner(connections, self._own.lend, postscript, forget)
        self._note = note
        self._clock = SystemClock()  # locks are held in real time, whatever clock the store has
        self._posted: deque[tuple[Posted, float]] = deque()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def post(self, posted: Posted) -> None:
        """Go on trying *posted*, until it is done or the time for it is over."""
        with self._mutex:
            self._posted.append((posted, self._clock.monotonic() + LOCK_TIMEOUT))
            if self._thread is None:
                name = "fencepost-postgres-wait"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait until all were answered, which is soon."""
        with self._mutex:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        """Try all that is posted, as long as there is any."""
        while True:
            with self._mutex:
                round_, self._posted = list(self._posted), deque()
                if not round_:
                    self._thread = None
                    self._own.close()
                    return
            # Whoever waits for long gets its turn among all that want the same; but none of many.
            patience = max(HELD_UP_TRY, HELD_UP_ROUND / len(round_))
            left = [each for each in round_ if not self._try(*each, patience)]
            with self._mutex:
                self._posted.extendleft(reversed(left))
            if left:
                self._clock.sleep(HELD_UP_PAUSE)

    def _try(self, posted: Posted, until: float, patience: float) -> bool:
        """Run an operation and answer it; return whether that is the end of it."""
        if posted.future.cancelled():
            return True
        try:
            answer = Answer(posted, self._runner.run(posted.operation, lock_timeout=patience), None)
        except HeldUpError as error:
            if self._clock.monotonic() < until:
                return False
            answer = Answer(posted, None, error.reason)
        except Exception as error:  # noqa: BLE001 - it is handed to whoever waits
            answer = Answer(posted, None, error)
        self._note(answer)
        deliver([answer])
        return True


class _Started(NamedTuple):
    posted: Posted
    plan: Plan[Any]
    statement: Statement


class _Crew:
    """What one thread serves groups with: a connection of its own."""

    def __init__(
        self,
        connections: Connections,
        postscript: Postscript,
        forget: Forget,
        note: Note,
        held_up: Callable[[Posted], None],
    ) -> None:
        self._note = note
        self._own = connections.dedicated()
        self._where = connections.address.shown
        self._postscript = postscript
        self._held_up = held_up
        self._runner = Runner(connections, self._own.lend, postscript, forget)

    def close(self) -> None:
        self._own.close()

    def _deliver(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._note(answer)
        deliver(answers)

    def serve(self, group: Sequence[Posted]) -> None:
        """Run every operation of *group*, and answer it; never raises."""
        wanted = [posted for posted in group if not posted.future.cancelled()]
        try:
            self._serve_each(wanted if len(wanted) < 2 else self._serve_together(wanted))
        except BaseException as error:  # noqa: BLE001 - whoever waits must be told of our bug
            self._deliver([Answer(posted, None, error) for posted in wanted])

    def _serve_each(self, group: Sequence[Posted]) -> None:
        for index, posted in enumerate(group):
            error: BaseException | None = None
            result = None
            try:
                result = self._runner.run(posted.operation, lock_timeout=GROUP_LOCK_TIMEOUT)
            except HeldUpError:
                self._held_up(posted)
                continue
            except Exception as raised:  # noqa: BLE001 - it is handed to whoever waits
                error = raised
            self._deliver([Answer(posted, result, error)])
            if error is not None and self._own.is_refused:
                # There is no server: nobody else in the group waits for the same to be found out.
                self._deliver([Answer(other, None, error) for other in group[index + 1 :]])
                return

    def _serve_together(self, group: Sequence[Posted]) -> Sequence[Posted]:
        """Run in one round trip what can be; return what has to be run by itself."""
        together, keyed, apart = self._sort(group)
        if len(together) + len(keyed) < 2:
            return group
        return self._ask(together) + self._ask(keyed) + apart

    def _ask(self, together: Sequence[_Started]) -> list[Posted]:
        """Run what is given in one round trip; return what has to be run by itself."""
        if len(together) < 2:
            return [started.posted for started in together]
        try:
            with self._own.lend() as session:
                session.answer_timeout = _patience(together)
                done = [s.posted.operation for s in together if not s.statement.prepares]
                settings = [*_relaxing(together), waiting(GROUP_LOCK_TIMEOUT)]
                rows = session.ask(
                    [*settings, *(s.statement for s in together)], self._postscript(done)
                )
        except (psycopg.Error, FencepostError) as error:
            return self._explain(together, error)
        return self._finish(together, rows[-len(together) :])

    def _sort(self, group: Sequence[Posted]) -> tuple[list[_Started], list[_Started], list[Posted]]:
        """Return what can be run together, those with a key each, and what has to be run alone.

        A key that another transaction holds must not hold up those without one. And keys, as well
        as leases, are locked in one order, or two groups could wait for each other; within one
        statement they are, so that one with several is run alone. Claims come last: those under a
        limit wait for each other, whatever else their group has locked.
        """
        together: list[_Started] = []
        keyed: list[_Started] = []
        apart: list[Posted] = []
        for posted in group:
            plan = posted.operation.start()
            try:
                statement = next(plan)
            except Exception:  # noqa: BLE001 - it will say so again when it is run by itself
                apart.append(posted)
                continue
            if not statement.alone or len(statement.keys) > 1:
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
        """Answer those whose outcome is known from *error*; return those who may be run again."""
        group = [started.posted for started in together]
        if isinstance(error, FencepostError):  # there was no connection to be had
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
        """Give each plan its rows; those that go on do so after the others are answered.

        Return those for whom nothing was done but to prepare: they are run from the start, and
        again if need be.
        """
        answers: list[Answer] = []
        further: list[_Started] = []
        prepared: list[Posted] = []
        for (posted, plan, statement), own in zip(together, rows, strict=True):
            try:
                following = plan.send(own)
                if statement.prepares:
                    prepared.append(posted)
                else:
                    further.append(_Started(posted, plan, following))
            except StopIteration as stop:
                answers.append(Answer(posted, stop.value, None))
            except Exception as error:  # noqa: BLE001 - a plan's own verdict, such as a duplicate
                answers.append(Answer(posted, None, error))
        self._deliver(answers)
        for posted, plan, statement in further:
            self._deliver([self._go_on(posted, plan, statement)])
        return prepared

    def _go_on(self, posted: Posted, plan: Plan[Any], statement: Statement) -> Answer:
        """Run the rest of a plan whose first statement has been committed with the group."""
        try:
            with self._own.lend() as session:
                session.answer_timeout = posted.operation.timeout
                return Answer(posted, self._rest(session, posted, plan, statement), None)
        except StoreUnavailableError as error:
            if posted.operation.effect is Effect.READ:
                return Answer(posted, None, error)
            # There is no connection any more, but the first statement was committed.
            unknown = UnknownOutcomeError(f"{error}; a part was done: repeat it")
            unknown.__cause__ = error
            return Answer(posted, None, unknown)
        except Exception as error:  # noqa: BLE001 - it is handed to whoever waits
            return Answer(posted, None, error)

    def _rest(self, session: Session, posted: Posted, plan: Plan[Any], statement: Statement) -> Any:
        run = Run(session, posted.operation)
        run.has_committed = posted.operation.effect is not Effect.READ
        try:
            return run.resume(plan, statement)
        except psycopg.Error as error:
            raise run.explain(error, self._where) from error


def _patience(together: Sequence[_Started]) -> float | None:
    """Return how long a silent server is waited for: as long as whoever would wait longest."""
    timeouts = [started.posted.operation.timeout for started in together]
    return None if None in timeouts else max(filter(None, timeouts))


def _rank(started: _Started) -> tuple[bool, tuple[str, ...]]:
    """Return the place of a statement in its group; those of equal rank stay in their order."""
    return started.posted.operation.declaration is CLAIM, tuple(started.statement.leases)


def _relaxing(together: Sequence[_Started]) -> list[Statement]:
    """Let a group not wait for the disk, if nobody in it relies on it."""
    effects = {started.posted.operation.effect for started in together}
    return [RELAX] if effects == {Effect.LEASE} else []


def run_in(connection: Any, operation: Operation[T]) -> T:
    """Execute *operation* in a transaction of the caller's, which commits it or does not.

    *connection* is a psycopg connection, or anything with a DB-API ``cursor()`` over one. Errors of
    the driver's reach the caller as they are: what becomes of the transaction is theirs to decide.
    Names are looked up by our search path meanwhile, and by the caller's again afterwards.
    """
    borrowed = _Borrowed(connection)
    try:
        ((path, _),) = borrowed.execute(EXCHANGE)
        try:
            result = run_plan(operation.start(), borrowed)
        except BaseException:
            with suppress(psycopg.Error):  # a transaction that failed has it back when rolled back
                borrowed.execute(restore(path))
            raise
        borrowed.execute(restore(path))
    except psycopg.Error as error:
        if is_schema_missing(error):
            raise translate(error, sent_commit=False) from error
        raise
    return result


async def run_in_async(connection: psycopg.AsyncConnection[Any], operation: Operation[T]) -> T:
    """Do the same on an async psycopg connection."""
    borrowed = _BorrowedAsync(connection)
    try:
        ((path, _),) = await borrowed.execute(EXCHANGE)
        try:
            result = await run_plan_async(operation.start(), borrowed)
        except BaseException:
            with suppress(psycopg.Error):
                await borrowed.execute(restore(path))
            raise
        await borrowed.execute(restore(path))
    except psycopg.Error as error:
        if is_schema_missing(error):
            raise translate(error, sent_commit=False) from error
        raise
    return result


class _Borrowed:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: Statement) -> list[Row]:
        with self._cursor() as cursor:
            if statement.many:
                cursor.executemany(statement.sql, statement.params)
                return []
            cursor.execute(statement.sql, statement.params)
            return cursor.fetchall() if cursor.description else []

    def _cursor(self) -> Any:
        if isinstance(self._connection, psycopg.Connection):
            # A plain one, whatever rows and cursors the caller's connection makes.
            return psycopg.Cursor(self._connection, row_factory=tuple_row)
        return self._connection.cursor()


class _BorrowedAsync:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def execute(self, statement: Statement) -> list[Row]:
        async with psycopg.AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            sql = statement.sql.encode()  # as text, psycopg's types want it to be a literal
            if statement.many:
                await cursor.executemany(sql, statement.params)
                return []
            await cursor.execute(sql, statement.params)
            return await cursor.fetchall() if cursor.description else []

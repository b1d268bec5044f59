"""One run of an operation on one session: its statements, its commit, and what is known of both.

An operation whose first statement is ``alone`` takes one round trip; any other is a transaction,
whose ``begin`` travels with the first statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import psycopg
from msgspec.structs import replace

from fencepost.core.bounds import LOCK_TIMEOUT
from fencepost.errors import FencepostError, SubmissionTimeoutError, UnknownOutcomeError
from fencepost.store.plan import Effect, Operation, Plan, Row, Statement
from fencepost.store.postgres.engine.errors import (
    LOCK_NOT_AVAILABLE,
    RETRIED,
    STALE_NUMBERS,
    STALE_SESSION,
    headline,
    is_loss,
    translate,
)
from fencepost.store.postgres.engine.session import NoAnswerError, Session

T = TypeVar("T")

BEGIN = Statement("begin")
BEGIN_SNAPSHOT = Statement("begin isolation level repeatable read read only")
COMMIT = Statement("commit")
ROLLBACK = Statement("rollback")
SHELTER = Statement("savepoint fencepost_shelter")
RETREAT = Statement("rollback to savepoint fencepost_shelter")
"""What failed since is undone, and the transaction is as good as it was."""
RELAX = Statement("select set_config('synchronous_commit', 'off', true)")
"""Before a claim or a heartbeat, for its transaction only: it need not wait for the disk."""


def waiting(seconds: float) -> Statement:
    """Have a transaction wait no longer than that for a lock."""
    return Statement("select set_config('lock_timeout', %s, true)", (f"{round(seconds * 1000)}ms",))


def relaxing(effect: Effect) -> list[Statement]:
    return [RELAX] if effect is Effect.LEASE else []


def relaxed(statement: Statement) -> Statement | None:
    """Return a call of a function and RELAX as one statement; None for anything else.

    A claim of few jobs notices a statement more.
    """
    if statement.many or not _CALL.fullmatch(statement.sql):
        return None
    return replace(statement, sql=f"{statement.sql} from ({RELAX.sql}) as relaxed")


_CALL = re.compile(r"select fencepost\.\w+\([%s, ]*\)(::text)?")


class Run(Generic[T]):
    """One run of an operation's plan on one session, and what is known of it should it break."""

    def __init__(
        self,
        session: Session,
        operation: Operation[T],
        postscript: Callable[[], Sequence[Statement]] = tuple,
        lock_timeout: float | None = None,
    ) -> None:
        self._session = session
        if lock_timeout is None and session.is_pooled:
            lock_timeout = LOCK_TIMEOUT  # elsewhere it is a setting of the session
        self._lock_timeout = lock_timeout
        self._postscript = postscript
        self._effect = operation.effect
        self._timeout = operation.timeout
        self._start = operation.start
        self._failure: psycopg.Error | None = None
        self.is_open_ended = False
        """Whether something may have been committed though its answer is lost."""
        self.has_committed = False
        """Whether a part of the operation is done for good."""

    def perform(self) -> T:
        """Start the plan and drive it to its end."""
        plan = self._start()
        try:
            statement = next(plan)
        except StopIteration as stop:
            result: T = stop.value
            return result
        if not statement.alone:
            return self.resume(plan, statement)
        return self._perform_alone(plan, statement)

    def _perform_alone(self, plan: Plan[T], statement: Statement) -> T:
        try:
            try:
                rows = self._ask_alone(statement)
            except Exception as error:  # noqa: BLE001 - the plan decides what an error means
                following = plan.throw(error)
            else:
                following = plan.send(rows)
        except StopIteration as stop:
            result: T = stop.value
            return result
        return self.resume(plan, following)

    def _ask_alone(self, statement: Statement) -> list[Row]:
        is_writing = self._effect is not Effect.READ and not statement.prepares
        try:
            postscript = () if statement.prepares else self._postscript()
            settings = self._settings()
            if settings == [RELAX] and (folded := relaxed(statement)) is not None:
                settings, statement = [], folded
            rows = self._session.ask([*settings, statement], postscript)[-1]
        except psycopg.Error as error:
            self.is_open_ended = is_writing and is_loss(error)
            raise
        self.has_committed = is_writing
        return rows

    def resume(self, plan: Plan[T], statement: Statement) -> T:
        """Execute *statement*, which *plan* has just yielded, and all that follows, or none."""
        try:
            result = self._drive(plan, statement)
            self._commit()
        except BaseException:
            if self._session.is_in_transaction:
                with suppress(psycopg.Error):  # a session that cannot is thrown away
                    self._session.ask([ROLLBACK])
            raise
        return result

    def _drive(self, plan: Plan[T], statement: Statement) -> T:
        try:
            while True:
                try:
                    rows = self._execute(statement)
                except Exception as error:  # noqa: BLE001 - the plan decides what an error means
                    statement = plan.throw(error)
                else:
                    statement = plan.send(rows)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _execute(self, statement: Statement) -> list[Row]:
        """Execute a statement of a transaction, which begins with the first."""
        session = self._session
        try:
            if session.is_in_transaction:
                rows = session.ask([statement])[0]
                if statement == RETREAT:
                    self._failure = None
                return rows
            begin = BEGIN_SNAPSHOT if self._effect is Effect.READ else BEGIN
            return session.ask([begin, *self._settings(), statement])[-1]
        except psycopg.Error as error:
            self._failure = error
            raise

    def _settings(self) -> list[Statement]:
        """Return what a transaction begins with."""
        settings = relaxing(self._effect)
        # What has been done in part is not done again, so it is not given up so soon either.
        if self._lock_timeout is not None and not self.has_committed:
            settings.append(waiting(self._lock_timeout))
        return settings

    def _commit(self) -> None:
        session = self._session
        if self._failure is not None:
            # Even if the plan made its peace with it: to commit would be to roll back in silence.
            raise self._failure
        try:
            session.ask([COMMIT])
        except psycopg.Error as error:
            if not session.closed:
                raise  # refused, and rolled back
            self.is_open_ended = self._effect is not Effect.READ
            if isinstance(error, NoAnswerError):
                raise
            # Whatever the server said in parting, it may have said it after the commit.
            raise psycopg.OperationalError("the connection was lost at commit") from error

    def explain(self, error: psycopg.Error, where: str) -> FencepostError:
        """Return what a caller is told of *error*."""
        if isinstance(error, NoAnswerError) and self.is_open_ended and self._timeout is not None:
            return SubmissionTimeoutError(
                f"{where}: {headline(error)}; it may have been done: repeat it with its key"
            )
        if self.has_committed:
            return UnknownOutcomeError(f"{where}: {headline(error)}; a part was done: repeat it")
        return translate(error, sent_commit=self.is_open_ended, where=where)

    def is_held_up(self, error: psycopg.Error) -> bool:
        """Tell whether a lock could not be had in time, and nothing is left of this."""
        return error.sqlstate == LOCK_NOT_AVAILABLE and not self.has_committed

    def is_conflict(self, error: psycopg.Error) -> bool:
        """Tell whether another transaction was in the way of this one, of which nothing is left."""
        return error.sqlstate in RETRIED and not self.has_committed

    def has_stale_numbers(self, error: psycopg.Error) -> bool:
        """Tell whether the server has lost what this process remembers; nothing was done."""
        return error.sqlstate == STALE_NUMBERS and not self.has_committed

    def is_without_trace(self, error: psycopg.Error) -> bool:
        """Tell whether surely nothing was done, on a session that is of no more use."""
        if self.has_committed:
            return False
        if error.sqlstate is None:
            return is_loss(error) and not self.is_open_ended
        return error.sqlstate in STALE_SESSION

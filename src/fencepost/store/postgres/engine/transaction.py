"""One run of an operation on one session: its statements, its commit, and their known outcome.

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

from fencepost.core.bounds import CHORE_LOCK_TIMEOUT, LOCK_TIMEOUT
from fencepost.errors import FencepostError, SubmissionTimeoutError, UnknownOutcomeError
from fencepost.generators import Returned, answer, begin, drive
from fencepost.store.chores import Chores
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
from fencepost.store.postgres.engine.session import NoAnswerError, ServerSession

T = TypeVar("T")

BEGIN = Statement("begin")
BEGIN_SNAPSHOT = Statement("begin isolation level repeatable read read only")
COMMIT = Statement("commit")
ROLLBACK = Statement("rollback")
SHELTER = Statement("savepoint fencepost_shelter")
RETREAT = Statement("rollback to savepoint fencepost_shelter")
"""Undoes what failed since SHELTER; the transaction can go on."""
RELAX = Statement("select set_config('synchronous_commit', 'off', true)")
"""Keeps the transaction of a claim or a heartbeat from waiting for the disk."""


def waiting(seconds: float) -> Statement:
    """Return what bounds how long a transaction waits for a lock."""
    return Statement("select set_config('lock_timeout', %s, true)", (f"{round(seconds * 1000)}ms",))


def relaxing(effect: Effect) -> list[Statement]:
    return [RELAX] if effect is Effect.LEASE else []


def folded(settings: Sequence[Statement], statement: Statement) -> list[Statement]:
    """Return the settings of a transaction and its one statement, as one if that is a call.

    One more statement is noticeable in a claim or a settlement of few jobs.
    """
    if not settings or statement.many or not _CALL.fullmatch(statement.sql):
        return [*settings, statement]
    made = ", ".join(each.sql.removeprefix("select ") for each in settings)
    params = [param for each in (statement, *settings) for param in each.params]
    sql = f"{statement.sql} from (select {made}) as settings"
    return [replace(statement, sql=sql, params=params)]


_CALL = re.compile(r"select fencepost\.\w+\([%s, ]*\)(::text)?")


class Run(Generic[T]):
    """One run of an operation's plan on one session, and what is known of it if that breaks."""

    def __init__(
        self,
        session: ServerSession,
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
        self._meanwhile = operation.meanwhile
        self._failure: psycopg.Error | None = None
        self.is_open_ended = False
        """Whether a commit may have succeeded although its answer is lost."""
        self.has_committed = False
        """Whether a part of the operation is committed."""

    def perform(self) -> T:
        """Start the plan and drive it to its end."""
        plan = self._start()
        statement = begin(plan)
        if not isinstance(statement, Returned) and statement.alone:
            statement = answer(plan, statement, self._ask_alone)
        if isinstance(statement, Returned):
            result: T = statement.value
            return result
        return self.resume(plan, statement)

    def _ask_alone(self, statement: Statement) -> list[Row]:
        is_writing = self._effect is not Effect.READ and not statement.prepares
        try:
            postscript = () if statement.prepares else self._postscript()
            asked = folded(self._settings(), statement)
            rows = self._session.ask(asked, postscript, self._meanwhile)[-1]
        except psycopg.Error as error:
            self.is_open_ended = is_writing and is_loss(error)
            raise
        self.has_committed = is_writing
        return rows

    def resume(self, plan: Plan[T], statement: Statement) -> T:
        """Execute *statement*, which *plan* has just yielded, and all that follows, or none."""
        try:
            result = drive(plan, self._execute, statement)
            self._commit()
        except BaseException:
            if self._session.is_in_transaction:
                with suppress(psycopg.Error):  # a session that cannot is closed
                    self._session.ask([ROLLBACK])
            raise
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
        # An operation that is partly committed cannot be repeated, so it may wait longer.
        if self._lock_timeout is not None and not self.has_committed:
            settings.append(waiting(self._lock_timeout))
        return settings

    def _commit(self) -> None:
        session = self._session
        if self._failure is not None:
            # Even if the plan caught it: a commit would silently roll back.
            raise self._failure
        try:
            session.ask([COMMIT])
        except psycopg.Error as error:
            if not session.closed:
                raise  # refused, and rolled back
            self.is_open_ended = self._effect is not Effect.READ
            if isinstance(error, NoAnswerError):
                raise
            # Whatever the server said last, it may have said it after the commit.
            raise psycopg.OperationalError("the connection was lost at commit") from error

    def explain(self, error: psycopg.Error, where: str) -> FencepostError:
        """Return the error for the caller."""
        if isinstance(error, NoAnswerError) and self.is_open_ended and self._timeout is not None:
            return SubmissionTimeoutError(
                f"{where}: {headline(error)}; it may have been done: repeat it with its key"
            )
        if self.has_committed:
            return UnknownOutcomeError(f"{where}: {headline(error)}; a part was done: repeat it")
        return translate(error, sent_commit=self.is_open_ended, where=where)

    def is_held_up(self, error: psycopg.Error) -> bool:
        """Return whether a lock was not granted in time, and nothing was committed."""
        return error.sqlstate == LOCK_NOT_AVAILABLE and not self.has_committed

    def is_conflict(self, error: psycopg.Error) -> bool:
        """Return whether this transaction conflicted with another, and nothing was committed."""
        return error.sqlstate in RETRIED and not self.has_committed

    def has_stale_numbers(self, error: psycopg.Error) -> bool:
        """Return whether the server has lost numbers of this process; nothing was done."""
        return error.sqlstate == STALE_NUMBERS and not self.has_committed

    def is_without_trace(self, error: psycopg.Error) -> bool:
        """Return whether certainly nothing was done, on a session that is no longer usable."""
        if self.has_committed:
            return False
        if error.sqlstate is None:
            return is_loss(error) and not self.is_open_ended
        return error.sqlstate in STALE_SESSION


def sheltered(chores: Chores, name: str, plan: Plan[T], instead: T) -> Plan[T]:
    """Do a chore; if it fails, undo it, record the failure and return *instead*.

    It waits only briefly for locks.
    """
    yield SHELTER
    try:
        yield waiting(CHORE_LOCK_TIMEOUT)
        result = yield from plan
        yield waiting(LOCK_TIMEOUT)
    except psycopg.Error as error:
        # The session is lost or cannot write: that is not the chore's fault.
        if error.sqlstate is None or error.sqlstate in STALE_SESSION:
            raise
        yield RETREAT
        chores.failed(name, headline(error))
        return instead
    except Exception as error:  # noqa: BLE001 - a chore must not fail the claim
        yield RETREAT
        chores.failed(name, repr(error))
        return instead
    chores.done(name)
    return result

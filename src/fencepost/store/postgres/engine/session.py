"""One session with the server, which executes many statements in one round trip.

``ask`` speaks libpq's pipeline mode itself. Psycopg's own pipeline sends every statement by itself
(in groups of 50, 36 µs of this process's time a statement where this takes 6), and does not say
which answers had arrived when a connection broke; here that decides what is known. Statements sent
together without ``begin`` are one transaction, committed at the Sync that ends them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult

from fencepost.platform.sockets import READABLE, WRITABLE, poller
from fencepost.store.plan import Row, Statement
from fencepost.store.postgres.engine.placeholders import numbered
from fencepost.store.postgres.engine.search_path import FIX

ANSWER_TIMEOUT = 60.0
"""Longer than the server lets any statement take: after that the connection counts as lost."""
PREPARED_MAX = 200
"""Statements that a session keeps prepared; those that come later are sent in full."""
LISTENING = READABLE
WRITING = READABLE | WRITABLE

SQLSTATE = pq.DiagnosticField.SQLSTATE

_Key = tuple[bytes, tuple[int, ...]]
_ANSWERED = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class NoAnswerError(psycopg.OperationalError):
    """The server has been silent for too long; the connection counts as lost."""


class _Command(NamedTuple):
    sql: bytes
    params: Sequence[Buffer | None]
    types: tuple[int, ...]
    formats: Sequence[pq.Format] | None


class ServerSession(psycopg.Connection[Row]):
    """A connection of the store's. Used by one thread at a time."""

    is_pooled = False
    """Whether a pooler may give each transaction another server session: nothing is kept in one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._transformer = Transformer(self)
        self._names: dict[_Key, bytes | None] = {}
        self._name_count = 0
        self.answer_timeout: float | None = None
        """Seconds for which the server may be silent, if fewer than ``ANSWER_TIMEOUT``."""
        self._poll = poller()
        self._poll.register(self.pgconn.socket, LISTENING)

    @property
    def is_idle(self) -> bool:
        """Whether it is between two transactions, and was alive when last heard of."""
        pgconn = self.pgconn
        return (
            pgconn.status == pq.ConnStatus.OK
            and pgconn.transaction_status == pq.TransactionStatus.IDLE
            and pgconn.pipeline_status == pq.PipelineStatus.OFF
        )

    @property
    def is_fresh(self) -> bool:
        """Whether it can be used again.

        A server that sends something unasked is closing the connection; checking costs 1 µs. A
        statement sent into a closed connection would have an unknown outcome.
        """
        return self.is_idle and not self._poll.poll(0)

    @property
    def is_in_transaction(self) -> bool:
        return self.pgconn.transaction_status in (
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
        )

    def ask(
        self,
        statements: Sequence[Statement],
        postscript: Sequence[Statement] = (),
        meanwhile: Callable[[], None] | None = None,
    ) -> list[list[Row]]:
        """Execute *statements* in one round trip; return the rows of each.

        Raises the server's error, after which nothing of this round trip is committed (unless it
        contained a commit), or an OperationalError without a code if the connection broke and the
        outcome is unknown. The *postscript* is a separate transaction after the commit, in the same
        round trip; its outcome is ignored. *meanwhile* is called once all is sent.
        """
        if not self.is_pooled:
            return self._ask(statements, postscript, meanwhile)
        postscript = (FIX, *postscript) if postscript else ()
        if self.is_in_transaction:
            return self._ask(statements, postscript, meanwhile)
        place = 1 if statements[0].sql.startswith("begin") else 0
        rows = self._ask((*statements[:place], FIX, *statements[place:]), postscript, meanwhile)
        return [*rows[:place], *rows[place + 1 :]]

    def _ask(
        self,
        statements: Sequence[Statement],
        postscript: Sequence[Statement],
        meanwhile: Callable[[], None] | None,
    ) -> list[list[Row]]:
        commands = [self._dump_all(statement) for statement in statements]  # raises before it sends
        further = [command for statement in postscript for command in self._dump_all(statement)]
        prepared = [each.meanwhile for each in statements if each.meanwhile is not None]
        calls = prepared if meanwhile is None else [meanwhile, *prepared]
        try:
            results = iter(
                self._exchange([command for each in commands for command in each], further, calls)
            )
        except BaseException as error:
            is_told = isinstance(error, psycopg.Error) and error.sqlstate is not None
            if not is_told or self.pgconn.status != pq.ConnStatus.OK:
                self.close()  # answers that may still come must not be read by others
            raise
        rows: list[list[Row]] = []
        for statement, sent in zip(statements, commands, strict=True):
            answers = [next(results) for _ in sent]
            rows.append([] if statement.many else self._load(answers[0]))
        return rows

    def _dump_all(self, statement: Statement) -> list[_Command]:
        sql = _numbered(statement.sql)
        if not statement.many:
            return [self._dump(sql, statement.params)]
        return [self._dump(sql, params) for params in statement.params]

    def _dump(self, sql: bytes, params: Sequence[Any]) -> _Command:
        if not params:
            return _Command(sql, (), (), None)
        transformer = self._transformer
        dumped = transformer.dump_sequence(params, _formats(len(params)))
        return _Command(sql, dumped, transformer.types or (), transformer.formats)

    def _exchange(
        self,
        commands: Sequence[_Command],
        further: Sequence[_Command],
        meanwhile: Sequence[Callable[[], None]],
    ) -> list[PGresult]:
        pgconn = self.pgconn
        if pgconn.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError("the connection is closed")
        pgconn.enter_pipeline_mode()
        preparing: list[_Key | None] = []
        for command in commands:
            self._send(command, preparing)
        pgconn.pipeline_sync()
        if further:
            for command in further:
                pgconn.send_query_params(*command)
            pgconn.pipeline_sync()
        self._flush()
        for call in meanwhile:
            call()
        results, failure = self._collect(len(preparing))
        if failure is not None:
            for key in filter(None, preparing[len(results) :]):
                self._names[key] = None  # the server did not prepare it
        if further:
            with suppress(psycopg.OperationalError):
                self._collect(len(further))
        if pgconn.status == pq.ConnStatus.OK:
            pgconn.exit_pipeline_mode()
        if failure is not None:
            raise error_from_result(failure)
        return [result for key, result in zip(preparing, results, strict=True) if key is None]

    def _send(self, command: _Command, preparing: list[_Key | None]) -> None:
        """Send *command*, and add to *preparing* what each of its answers is for."""
        pgconn = self.pgconn
        sql, params, types, formats = command
        key = (sql, types)
        name = self._names.get(key)
        if name is None and key in self._names:  # its second use: there will be a third
            self._name_count += 1
            name = self._names[key] = b"fencepost_%d" % self._name_count
            pgconn.send_prepare(name, sql, types)
            preparing.append(key)
        if name is not None:
            pgconn.send_query_prepared(name, params, formats)
        else:
            pgconn.send_query_params(sql, params, types, formats)
            if not self.is_pooled and len(self._names) < PREPARED_MAX:
                self._names[key] = None
        preparing.append(None)

    def _flush(self) -> None:
        """Send everything; read meanwhile, or two full buffers would deadlock."""
        pgconn = self.pgconn
        if not pgconn.flush():
            return
        self._poll.modify(pgconn.socket, WRITING)
        try:
            while pgconn.flush():
                if any(event & READABLE for _, event in self._wait()):
                    pgconn.consume_input()
        finally:
            self._poll.modify(pgconn.socket, LISTENING)

    def _collect(self, count: int) -> tuple[list[PGresult], PGresult | None]:
        """Return the answers up to the first error, and that error."""
        pgconn = self.pgconn
        results: list[PGresult] = []
        failure: PGresult | None = None
        while True:
            self._receive()
            result = pgconn.get_result()
            if result is None:
                if pgconn.status != pq.ConnStatus.OK:
                    return results, self._last_error(failure, len(results) < count)
            elif result.status in _ANSWERED:
                results.append(result)
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results, failure
            elif result.status != pq.ExecStatus.PIPELINE_ABORTED:
                failure = failure or result

    def _last_error(self, failure: PGresult | None, is_incomplete: bool) -> PGresult:
        """Return the error with which the server closed the connection, if nothing was committed.

        A transaction commits only after each of its statements was answered, and answers arrive
        in order: if one is missing before the server's last error, there was no commit.
        """
        if failure is not None and is_incomplete and failure.error_field(SQLSTATE):
            return failure
        raise psycopg.OperationalError(
            "the server closed the connection before it said whether it had committed"
        )

    def _receive(self) -> None:
        """Wait until the next answer is here, or the connection is known to have ended."""
        pgconn = self.pgconn
        while pgconn.is_busy():
            self._wait()
            try:
                pgconn.consume_input()
            except psycopg.OperationalError:
                return  # answers that have arrived are still to be read

    def _wait(self) -> list[tuple[int, int]]:
        timeout = ANSWER_TIMEOUT
        if self.answer_timeout is not None:
            timeout = min(timeout, self.answer_timeout)
        events = self._poll.poll(timeout * 1000)
        if not events:
            raise NoAnswerError(f"the server gave no answer for {timeout:g} s")
        return events

    def _load(self, result: PGresult) -> list[Row]:
        if result.status != pq.ExecStatus.TUPLES_OK:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)


@lru_cache(maxsize=1_000)
def _numbered(sql: str) -> bytes:
    return numbered(sql).encode()


@lru_cache(maxsize=100)
def _formats(count: int) -> list[PyFormat]:
    return [PyFormat.AUTO] * count

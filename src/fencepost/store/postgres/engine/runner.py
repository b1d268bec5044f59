"""Runs one operation at a time in the calling thread, and repeats it where that is safe.

An operation that certainly left nothing behind (a deadlock, a session that the server had ended
before) is repeated. One that may have been committed never is: the caller gets an error that says
so, and repeats it with its key.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import psycopg

from fencepost.clock import SystemClock
from fencepost.core.bounds import HELD_UP_PAUSE, HELD_UP_ROUND, HELD_UP_TRY, LOCK_TIMEOUT
from fencepost.errors import FencepostError
from fencepost.store.group_commit import Answer, Posted, deliver
from fencepost.store.plan import Operation, Statement
from fencepost.store.postgres.engine.connections import Connections, Dedicated
from fencepost.store.postgres.engine.errors import STALE_SESSION
from fencepost.store.postgres.engine.session import NoAnswerError, ServerSession
from fencepost.store.postgres.engine.transaction import Run

T = TypeVar("T")

CONFLICTS_MAX = 5
"""How often an operation is repeated because of a conflict with another transaction."""
CONFLICT_PAUSE = 0.005
"""Seconds before the first repetition, at most; each further one may wait twice as long."""


class RunnerHooks(NamedTuple):
    """What a store does beside running operations."""

    postscript: Callable[[Sequence[Operation[Any]]], Sequence[Statement]] = lambda _: ()
    """Returns what to execute after the commit of operations, in the same round trip."""
    forget: Callable[[], None] = lambda: None
    """Drops the numbers that this process remembers, when the server has lost some."""
    note: Callable[[Answer], None] = lambda _: None
    """Sees every awaited answer, including one whose caller has been cancelled."""


NO_HOOKS = RunnerHooks()


class HeldUpError(Exception):
    """A lock was not granted in the given time; nothing was done."""

    def __init__(self, reason: FencepostError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Runner:
    """Runs operations one at a time, each on a connection that it borrows."""

    def __init__(
        self,
        connections: Connections,
        hooks: RunnerHooks = NO_HOOKS,
        lend: Callable[[], AbstractContextManager[ServerSession]] | None = None,
    ) -> None:
        self._lend = lend or connections.lend
        self._hooks = hooks
        self._clock = connections.clock
        self._where = connections.address.shown

    def run(self, operation: Operation[T], *, lock_timeout: float | None = None) -> T:
        """Execute *operation* in this thread, as one transaction.

        With *lock_timeout*, raise HeldUpError if a lock is not granted in that time; then certainly
        nothing was done.
        """
        conflicts = 0
        has_changed_session = False
        while True:
            with self._lend() as session:
                session.answer_timeout = operation.timeout
                postscript = partial(self._hooks.postscript, [operation])
                run = Run(session, operation, postscript, lock_timeout)
                try:
                    return run.perform()
                except psycopg.Error as error:
                    if error.sqlstate in STALE_SESSION:
                        session.close()
                    if lock_timeout is not None and run.is_held_up(error):
                        raise HeldUpError(run.explain(error, self._where)) from error
                    if run.has_stale_numbers(error):
                        self._hooks.forget()
                    is_passing = run.is_conflict(error) or run.has_stale_numbers(error)
                    if is_passing and conflicts < CONFLICTS_MAX:
                        conflicts += 1
                    elif run.is_without_trace(error) and not (
                        has_changed_session or _is_out_of_time(operation, error)
                    ):
                        has_changed_session = True
                        continue
                    else:
                        raise run.explain(error, self._where) from error
            self._clock.sleep(self._clock.rng.uniform(0, CONFLICT_PAUSE * 2**conflicts))


def _is_out_of_time(operation: Operation[Any], error: psycopg.Error) -> bool:
    """Return whether the caller has already waited as long as it wants for a silent server."""
    return operation.timeout is not None and isinstance(error, NoAnswerError)


class Waiting:
    """Retries operations that wait for another transaction's locks, on a separate thread.

    So no other operation waits for them. Each is given up after LOCK_TIMEOUT.
    """

    def __init__(self, connections: Connections, hooks: RunnerHooks) -> None:
        self._own = Dedicated(connections)
        self._runner = Runner(connections, hooks, self._own.lend)
        self._note = hooks.note
        self._clock = SystemClock()  # locks are held in real time, also with a test's clock
        self._posted: deque[tuple[Posted, float]] = deque()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def post(self, posted: Posted) -> None:
        """Retry *posted* until it is done or its time is over."""
        with self._mutex:
            self._posted.append((posted, self._clock.monotonic() + LOCK_TIMEOUT))
            if self._thread is None:
                name = "fencepost-postgres-wait"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait until all are answered, which is soon."""
        with self._mutex:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._mutex:
                round_, self._posted = list(self._posted), deque()
                if not round_:
                    self._thread = None
                    self._own.close()
                    return
            # A longer wait queues for the lock behind others; many such waits would take too long.
            patience = max(HELD_UP_TRY, HELD_UP_ROUND / len(round_))
            left = [each for each in round_ if not self._try(*each, patience)]
            with self._mutex:
                self._posted.extendleft(reversed(left))
            if left:
                self._clock.sleep(HELD_UP_PAUSE)

    def _try(self, posted: Posted, until: float, patience: float) -> bool:
        """Run an operation and answer it; return False if it has to be tried again."""
        if posted.future.cancelled():
            return True
        try:
            answer = Answer(posted, self._runner.run(posted.operation, lock_timeout=patience), None)
        except HeldUpError as error:
            if self._clock.monotonic() < until:
                return False
            answer = Answer(posted, None, error.reason)
        except Exception as error:  # noqa: BLE001 - handed to the caller
            answer = Answer(posted, None, error)
        self._note(answer)
        deliver([answer])
        return True

"""Runs scripts on the server that has the keys, and tells what was not done from what is unknown.

A connection is opened before anything is sent: if that fails, nothing was done. From the first byte
of a script to its answer, a broken connection means that the outcome is unknown.

If a server answers that another one has the keys, the store looks for that one and sends the script
again, for as long as its patience lasts. While a slot is being moved (ASK), it does not follow the
redirection but waits: a script finds all keys of its app in one place, or is not run.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import redis
import redis.exceptions as theirs

from fencepost.clock import SystemClock
from fencepost.errors import FencepostError, StoreUnavailableError
from fencepost.generators import drive, drive_async
from fencepost.store.interface.store import check_open
from fencepost.store.plan import Effect
from fencepost.store.redis.engine.address import Address, Deployment
from fencepost.store.redis.engine.errors import (
    BROKEN,
    ServerChangedError,
    UnfitError,
    answered,
    behind,
    is_elsewhere,
    lost,
    refused,
)
from fencepost.store.redis.engine.master import Master, ask, ask_async
from fencepost.store.redis.engine.router import Router
from fencepost.store.redis.engine.scripts import script

FIRST_PAUSE, PAUSE_MAX = 0.02, 0.5
"""Seconds between attempts to find the server that has the keys."""
FACTS = "facts"
"""Not a script: what the server says about itself."""
BARRIER = "barrier"
"""Not a script: a write without a meaning, which replicas confirm after all that was before it."""
READS = frozenset({"read", FACTS})
"""What writes nothing on which a caller relies."""

Command = tuple[Any, ...]


class ServerPin:
    """One try of one operation: all its scripts run on one server, with one history of its data.

    What was read before a failover may be newer than what is there after it, under the same
    revision; and a number that was reserved before it may be taken after it.
    """

    def __init__(self, effect: Effect) -> None:
        self.is_write = effect is Effect.WRITE
        self.is_confirmed = False
        """Whether replicas have confirmed all that was there at the end."""
        self._era = 0

    def enter(self, server: Master) -> None:
        """Raise ServerChangedError unless this is where the operation began."""
        if self._era not in (0, server.era):
            raise ServerChangedError
        self._era = server.era


class Connections:
    """Runs scripts on the server that has the keys, blocking or awaited."""

    def __init__(self, address: Address, *, patience: float) -> None:
        self._address = address
        self._prefix = address.prefix.encode()
        self._where = address.shown
        self._patience = patience
        self._router = Router(address, patience=patience)
        self._wait_ms = int(patience * 500)  # well before the connection gives up
        self._time = SystemClock()
        self._eras = itertools.count(1)
        self._server: Master | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._is_closed = False

    def check(self) -> None:
        """Raise unless this process may use it."""
        check_open(self._pid, is_closed=self._is_closed)

    # Running a script.

    def run(
        self,
        name: str,
        *args: Any,
        pin: ServerPin | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Any:
        """Run a script, and return its answer; *meanwhile* is called once it is sent."""
        effort = _Effort(self._address.kind, self._time, self._patience)
        while True:
            self.check()
            try:
                return self._run_on(self._find(), name, args, pin, meanwhile)
            except _LaterError as later:
                pause = effort.pause(later)
                self._leave(later.server)
            self._time.sleep(pause)

    def _run_on(
        self,
        server: Master,
        name: str,
        args: Sequence[Any],
        pin: ServerPin | None,
        meanwhile: Callable[[], None] | None,
    ) -> Any:
        wait = self._wait(name, pin)
        try:
            connection = server.pool.get_connection()
        except (*BROKEN, theirs.ResponseError) as error:
            raise self._later(server, error, refused(error, where=self._where)) from None
        try:
            if pin is not None:
                pin.enter(server)
            if name == FACTS:
                facts = drive(server.facts(), lambda words: ask(connection, words))
                return [(facts, self._address.durability, self._address.replicas)]
            for command in self._commands(name, args):
                connection.send_packed_command(connection.pack_commands([command, *wait]))
                if meanwhile is not None:
                    meanwhile()
                    meanwhile = None
                answers = [_received(connection) for _ in (command, *wait)]
                if not isinstance(answers[0], theirs.NoScriptError):
                    break  # else the server is new, or has forgotten its scripts
        except BROKEN as error:
            connection.disconnect()
            raise self._broken(server, error) from None
        except BaseException:
            connection.disconnect()  # its answer would be taken for that of the next script
            raise
        finally:
            server.pool.release(connection)
        if pin is not None:
            pin.is_confirmed = bool(wait)
        return self._result(server, name, answers)

    async def run_async(self, name: str, *args: Any, pin: ServerPin | None = None) -> Any:
        """Do the same without blocking the event loop."""
        effort = _Effort(self._address.kind, self._time, self._patience)
        while True:
            self.check()
            try:
                server = self._server
                if server is None:
                    server = await asyncio.to_thread(self._find)
                return await self._run_on_async(server, name, args, pin)
            except _LaterError as later:
                pause = effort.pause(later)
                await asyncio.to_thread(self._leave, later.server)
            await self._time.sleep_async(pause)

    async def _run_on_async(
        self, server: Master, name: str, args: Sequence[Any], pin: ServerPin | None
    ) -> Any:
        wait = self._wait(name, pin)
        pool = server.pool_of(asyncio.get_running_loop())
        task = asyncio.current_task()
        cancelled = 0 if task is None else task.cancelling()
        try:
            connection = await pool.get_connection()
        except (*BROKEN, theirs.ResponseError) as error:
            raise self._later(server, error, refused(error, where=self._where)) from None
        try:
            _obey(task, cancelled)
            if pin is not None:
                pin.enter(server)
            if name == FACTS:
                asked = drive_async(server.facts(), lambda words: ask_async(connection, words))
                return [(await asked, self._address.durability, self._address.replicas)]
            for command in self._commands(name, args):
                await connection.send_packed_command(connection.pack_commands([command, *wait]))
                answers = [await _received_async(connection) for _ in (command, *wait)]
                if not isinstance(answers[0], theirs.NoScriptError):
                    break
            _obey(task, cancelled)
        except BROKEN as error:
            await connection.disconnect()
            raise self._broken(server, error) from None
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await pool.release(connection)
        if pin is not None:
            pin.is_confirmed = bool(wait)
        return self._result(server, name, answers)

    def _commands(self, name: str, args: Sequence[Any]) -> list[Command]:
        """Return what is sent, and then what is sent if the server does not know the script."""
        if name == BARRIER:
            return [("SET", self._prefix + b"barrier", b"")]
        text, sha = script(name)
        known: Command = ("EVALSHA", sha, 1, self._prefix, *args)
        return [known, ("EVAL", text, *known[2:])]

    def _wait(self, name: str, pin: ServerPin | None) -> list[Command]:
        """Return the command that waits for replicas, after a script on whose writes one relies."""
        count = self._address.waits_for
        is_relied_on = pin is None or pin.is_write  # without a word, take the safe side
        if not count or not is_relied_on or name in READS:
            return []
        return [("WAIT", count, self._wait_ms)]

    def needs_barrier(self, pin: ServerPin) -> bool:
        """Tell whether an operation must wait for replicas although it wrote nothing itself.

        It relies on what it read: a submission or a settlement that is repeated finds that it was
        done, which replicas may not know yet.
        """
        return bool(self._address.waits_for) and pin.is_write and not pin.is_confirmed

    def _result(self, server: Master, name: str, answers: Sequence[Any]) -> Any:
        """Return the answer to a script, or raise what it means."""
        answer, *confirmed = answers
        if isinstance(answer, theirs.ResponseError):
            meaning = answered(answer, where=self._where, writes=name not in READS)
            raise self._later(server, answer, meaning) from None
        # A commit that wrote nothing has nothing to wait for.
        if confirmed and answer not in (0, -1):
            (count,) = confirmed
            count = 0 if isinstance(count, Exception) else count
            if count < self._address.waits_for:
                seconds = self._wait_ms / 1000
                raise behind(count, self._address.waits_for, seconds, where=self._where)
        return answer

    def _broken(self, server: Master, error: Exception) -> Exception:
        """Return what it means that a connection broke after a script was sent."""
        meaning = lost(error, where=self._where)
        if isinstance(meaning, StoreUnavailableError):
            return self._later(server, error, meaning)
        return meaning

    def _later(self, server: Master, error: Exception, meaning: FencepostError) -> Exception:
        """Return the error of something that was not done, and whether to try it again."""
        if not isinstance(meaning, StoreUnavailableError):
            return meaning
        is_lasting = isinstance(error, (UnfitError, theirs.AuthenticationError))
        is_hopeful = is_elsewhere(error) or (
            self._address.kind is not Deployment.SERVER
            and isinstance(error, BROKEN)
            and not is_lasting
        )
        return _LaterError(meaning, server, is_hopeful=is_hopeful)

    # Finding the server.

    def _find(self) -> Master:
        server = self._server
        if server is not None:
            return server
        try:
            place = self._router.find()
        except (*BROKEN, theirs.RedisError) as error:
            raise _LaterError(refused(error, where=self._where), None, is_hopeful=True) from None
        with self._lock:
            if self._server is None:
                self._server = Master(place, self._address, self._patience, self._next_era)
            return self._server

    def _next_era(self) -> int:
        return next(self._eras)

    def _leave(self, server: Master | None) -> None:
        """Look for the server again; its connections are kept if it is still the same one."""
        if server is None:
            return
        if self._address.kind is not Deployment.SERVER:
            try:
                if self._router.find() == server.place:
                    return
            except (*BROKEN, theirs.RedisError):
                return
        with self._lock:
            if self._server is server:
                self._server = None
        server.close(at_once=False)

    def client(self) -> redis.Redis:
        """Return a client of its own, for what is not a script."""
        try:
            return self._find().client()
        except _LaterError as later:
            raise theirs.ConnectionError(str(later)) from None

    def close(self) -> None:
        """Close all connections; those of other event loops go when they are collected."""
        self._is_closed = True
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.close(at_once=True)


class _LaterError(Exception):
    """It was surely not done; another server may do it, or the same one a little later."""

    def __init__(self, meaning: FencepostError, server: Master | None, *, is_hopeful: bool) -> None:
        super().__init__(str(meaning))
        self.meaning = meaning
        self.server = server
        self.is_hopeful = is_hopeful


class _Effort:
    """How often, and for how long, a script is tried that was surely not run."""

    def __init__(self, kind: Deployment, time: SystemClock, patience: float) -> None:
        self._kind = kind
        self._time = time
        self._ends = time.monotonic() + patience
        self._is_first = True
        self._pause = 0.0

    def pause(self, later: _LaterError) -> float:
        """Return how long to wait before the next try, or raise what the error means."""
        # One server may have got another address, which its name leads to; that is seen at once.
        is_single = self._kind is Deployment.SERVER
        may_try = self._is_first if is_single else self._time.monotonic() < self._ends
        self._is_first = False
        if not later.is_hopeful or not may_try:
            raise later.meaning from None
        pause = self._pause * self._time.rng.uniform(0.5, 1.0)
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), PAUSE_MAX)
        return pause


def _received(connection: Any) -> Any:
    try:
        return connection.read_response()
    except theirs.ResponseError as error:
        return error


async def _received_async(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except theirs.ResponseError as error:
        return error


def _obey(task: asyncio.Task[Any] | None, before: int) -> None:
    """Raise CancelledError if the task was cancelled since: the driver may have swallowed it."""
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError

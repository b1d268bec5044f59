"""Child processes for ``isolation="process"``: one handler at a time each, killed when need be.

A child imports the handler by its module and name, runs it, and sends back the outcome. It is
reused for the next job, and dies with its worker.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING

import msgspec

from fencepost.core.crypto.keyring import KeyRing
from fencepost.core.job.failure import crashed
from fencepost.core.job.job import ClaimedJob, Dependency
from fencepost.core.job.outcome import Failed, Outcome, Snoozed, Succeeded, Unreadable
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import log

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt

ReturnedOutcome = Succeeded | Failed | Snoozed | Unreadable

PIPE_ROOM = 32_768
"""What surely fits into an empty pipe, on every system."""


class ChildRequest(msgspec.Struct, frozen=True):
    """What a child is asked to run."""

    module: str
    qualname: str
    job: ClaimedJob
    dependencies: tuple[Dependency, ...] = ()


class Marked(msgspec.Struct, frozen=True, tag=True):
    """A child's word, before its outcome, that it completes the job in this transaction."""

    mark: str


_requests = msgspec.msgpack.Encoder()
_answers: msgspec.msgpack.Decoder[ReturnedOutcome | Marked] = msgspec.msgpack.Decoder(
    ReturnedOutcome | Marked
)


@dataclass(eq=False, slots=True)
class Child:
    """One process and the pipe to it."""

    process: SpawnProcess
    pipe: Connection


class Children:
    """As many child processes as there are isolated attempts at once; idle ones are reused."""

    def __init__(self, url: str, counters: Counters, keys: KeyRing | None = None) -> None:
        self._url = url
        self._keys = keys
        self._counters = counters
        self._context = multiprocessing.get_context("spawn")
        self._idle: deque[Child] = deque()
        self._busy: dict[str, Child] = {}

    async def run(self, attempt: RunningAttempt) -> Outcome:
        """Run an attempt in a child; raise nothing but what the handler's outcome is."""
        if attempt.has_ended:
            return crashed("interrupted before a child was there to be killed")
        child = self._ready_child()
        self._busy[attempt.job.lease.token] = child
        try:
            return await self._converse(child, attempt)
        finally:
            self._busy.pop(attempt.job.lease.token, None)

    async def _converse(self, child: Child, attempt: RunningAttempt) -> Outcome:
        function = attempt.task.function
        request = ChildRequest(
            function.__module__,
            function.__qualname__,
            attempt.job,
            tuple(attempt.context.dependencies),
        )
        try:
            await _send(child.pipe, _requests.encode(request))
            while isinstance(answer := _answers.decode(await _receive(child.pipe)), Marked):
                attempt.context.note_mark(answer.mark)
        except (EOFError, OSError) as error:
            return self._bury(child, error)
        if child.process.is_alive():
            self._idle.append(child)
        return answer

    def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.process.is_alive():
                return child
            child.pipe.close()
        from fencepost.worker.process.child import main

        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=main,
            args=(theirs, self._url, self._keys),
            name="fencepost-child",
            daemon=True,
        )
        process.start()
        theirs.close()
        self._counters.add(names.CHILD_STARTED)
        log(names.CHILD_STARTED, level=logging.DEBUG, pid=process.pid)
        return Child(process, ours)

    def _bury(self, child: Child, error: Exception) -> Failed:
        """Say how a child ended that did not answer."""
        child.process.join(1.0)
        child.pipe.close()
        code = child.process.exitcode
        self._counters.add(names.CHILD_DIED)
        log(names.CHILD_DIED, level=logging.WARNING, pid=child.process.pid, exitcode=code)
        if code is not None and code < 0:
            return crashed(f"the child process was killed by signal {-code}")
        return crashed(f"the child process ended with code {code} ({type(error).__name__})")

    def kill(self, attempt: RunningAttempt) -> None:
        """Kill the child that runs an attempt: it has surely ended."""
        child = self._busy.get(attempt.job.lease.token)
        if child is not None:
            child.process.kill()

    def close(self) -> None:
        """End every child; whatever still runs is killed."""
        for child in [*self._idle, *self._busy.values()]:
            child.pipe.close()
            child.process.kill()
        for child in [*self._idle, *self._busy.values()]:
            child.process.join(5.0)
        self._idle.clear()


async def _send(pipe: Connection, data: bytes) -> None:
    """Send one message without blocking the loop."""
    if len(data) <= PIPE_ROOM:
        pipe.send_bytes(data)
    else:
        # A child that is still starting reads nothing; the rest of the message waits for it.
        await asyncio.get_running_loop().run_in_executor(None, pipe.send_bytes, data)


async def _receive(pipe: Connection) -> bytes:
    """Wait for one message without blocking the loop."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not readable.done():
            readable.set_result(None)

    fd = pipe.fileno()
    loop.add_reader(fd, wake)
    try:
        await readable
    finally:
        loop.remove_reader(fd)
    # A message larger than the pipe's buffer arrives in parts; its rest is on its way.
    data: bytes = await loop.run_in_executor(None, pipe.recv_bytes)
    return data

"""Child processes for ``isolation="process"``: one handler at a time each, killed if necessary.

A child imports the handler by its module and name, runs it, and sends back the outcome. It is
reused for the next job, and dies with its worker. This is the worker's end of the pipe; the other
is ``child.py``. If a child dies, its attempt has failed, see ``Children._died``. Before its
handler's first line a child asks its worker, which notes the start: what a worker that dies had
given to children that were still starting has not started (C41).
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING

from fencepost.clock import SystemClock
from fencepost.core.encryption import KeyRing
from fencepost.core.job.failure import crashed
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.outcome import Failed, Outcome
from fencepost.core.job.task import Isolation, Task
from fencepost.observe import names
from fencepost.observe.counters import Counters
from fencepost.observe.log import configured, log, log_job
from fencepost.platform.processes import PIPE_ROOM, resident_memory, wait_for_message
from fencepost.worker.child import (
    GO,
    ChildMessage,
    ChildRequest,
    ImportedName,
    Marked,
    Ready,
    Starting,
    decode_message,
    encode,
    main,
)
from fencepost.worker.retirement import as_megabytes

if TYPE_CHECKING:
    from fencepost.worker.run.attempt import RunningAttempt


CHILD_START_MAX = 10.0
"""Seconds for which a worker waits for its first child before it claims."""
CHILD_END_MAX = 5.0
"""Seconds in which idle children end at a shutdown, all together; then they are killed."""


@dataclass(eq=False, slots=True)
class Child:
    """One process and the pipe to it."""

    process: SpawnProcess
    pipe: Connection


class Children:
    """As many child processes as there are isolated attempts at once; idle ones are reused."""

    def __init__(
        self,
        url: str,
        counters: Counters,
        keys: KeyRing | None = None,
        *,
        max_rss: int | None = None,
        preload: tuple[str, ...] = (),
    ) -> None:
        self._max_rss = max_rss
        self._preload = preload
        self._url = url
        self._keys = keys
        self._counters = counters
        self._context = multiprocessing.get_context("spawn")
        self._modules = preload
        """Where the handlers are, for a child to import them as it starts."""
        self._idle: deque[Child] = deque()
        self._busy: dict[str, Child] = {}

    async def warm_up(self, tasks: Iterable[Task]) -> None:
        """Start the first child before its first job, which would wait for Python to start."""
        isolated = [task for task in tasks if task.isolation is Isolation.PROCESS]
        modules = {task.function.__module__ for task in isolated}
        self._modules = (*self._preload, *sorted(modules))
        if isolated:
            with suppress(Exception):  # then the first job says what is wrong
                self._idle.append(self._ready_child())
                async with asyncio.timeout(CHILD_START_MAX):
                    await _answer(self._idle[0].pipe)

    async def run(
        self, attempt: RunningAttempt, trace_tags: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run an attempt in a child, and return its outcome also if the child dies."""
        if attempt.has_ended:
            return crashed("interrupted before a child was there to be killed")
        child = self._ready_child()
        self._busy[attempt.job.lease.token] = child
        try:
            return await self._converse(child, attempt, dict(trace_tags or {}))
        finally:
            self._busy.pop(attempt.job.lease.token, None)

    async def _converse(
        self, child: Child, attempt: RunningAttempt, trace_tags: dict[str, str]
    ) -> Outcome:
        function, rule = attempt.task.function, attempt.task.rule
        request = ChildRequest(
            function.__module__,
            function.__qualname__,
            attempt.job,
            tuple(attempt.state.dependencies),
            on=None if rule is None or rule.on is None else _names(rule.on),
            never=() if rule is None else _names(rule.never),
            trace_tags=trace_tags,
        )
        try:
            await _send(child.pipe, encode(request))
            while isinstance(answer := await _answer(child.pipe), (Marked, Ready, Starting)):
                if isinstance(answer, Marked):
                    attempt.state.note_mark(answer.mark)
                elif isinstance(answer, Starting) and attempt.note_start():
                    child.pipe.send_bytes(GO)
        except (EOFError, OSError) as error:
            return self._died(child, error, attempt.job)
        if child.process.is_alive() and not self._retire(child):
            self._idle.append(child)
        return answer

    def _retire(self, child: Child) -> bool:
        """Let a child that uses too much memory exit; the next job starts another."""
        rss = 0 if self._max_rss is None else resident_memory(child.process.pid)
        if self._max_rss is None or rss <= self._max_rss:
            return False
        child.pipe.close()
        log(names.CHILD_REPLACED, pid=child.process.pid, reason="max_rss", rss=as_megabytes(rss))
        return True

    def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.process.is_alive():
                return child
            child.pipe.close()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=main,
            args=(theirs, self._url, self._keys, configured(), self._modules),
            name="fencepost-child",
            daemon=True,
        )
        process.start()
        theirs.close()
        self._counters.add(names.CHILD_STARTED)
        log(names.CHILD_STARTED, level=logging.DEBUG, pid=process.pid)
        return Child(process, ours)

    def _died(self, child: Child, error: Exception, job: ClaimedJob) -> Failed:
        """Return the failure of an attempt whose child ended without an answer."""
        child.process.join(1.0)
        child.pipe.close()
        code = child.process.exitcode
        self._counters.add(names.CHILD_DIED)
        about = {"attempt": job.attempt, "pid": child.process.pid, "exitcode": code}
        log_job(names.CHILD_DIED, job, level=logging.WARNING, **about)
        if code is not None and code < 0:
            return crashed(f"the child process was killed by signal {-code}")
        return crashed(f"the child process ended with code {code} ({type(error).__name__})")

    def kill(self, attempt: RunningAttempt) -> None:
        """Kill the child that runs an attempt: it has surely ended."""
        child = self._busy.get(attempt.job.lease.token)
        if child is not None:
            child.process.kill()

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    def close(self) -> None:
        """End every child: idle ones may leave the app's lifespan, what still runs is killed."""
        for child in self._busy.values():
            child.process.kill()
        every = [*self._idle, *self._busy.values()]
        for child in every:
            child.pipe.close()  # an idle child ends when it sees this
        clock = SystemClock()
        end = clock.monotonic() + CHILD_END_MAX
        for child in every:
            child.process.join(max(0.0, end - clock.monotonic()))
            child.process.kill()
        self._idle.clear()


async def _send(pipe: Connection, data: bytes) -> None:
    """Send one message without blocking the loop."""
    if len(data) <= PIPE_ROOM:
        pipe.send_bytes(data)
    else:
        # A child that is still starting reads nothing; the rest of the message waits for it.
        await asyncio.get_running_loop().run_in_executor(None, pipe.send_bytes, data)


async def _answer(pipe: Connection) -> ChildMessage:
    return decode_message(await _receive(pipe))


async def _receive(pipe: Connection) -> bytes:
    """Wait for one message without blocking the loop."""
    await wait_for_message(pipe)
    # A message larger than the pipe's buffer arrives in parts; its rest is on its way.
    data: bytes = await asyncio.get_running_loop().run_in_executor(None, pipe.recv_bytes)
    return data


def _names(classes: Iterable[type]) -> tuple[ImportedName, ...]:
    return tuple((each.__module__, each.__qualname__) for each in classes)

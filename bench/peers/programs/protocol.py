"""What the programs of all peers written in Python do alike; ``protocol.js`` does the same.

A program has one of three roles. ``prepare`` makes what the queue needs in an empty store.
``submit`` reads orders from its standard input, one JSON object a line, and answers each with a
line. ``work`` says ``ready`` when everything is imported, begins at the first line that it is
given, and works until it is killed. Only the standard library is used here: each peer has an
environment of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

URL = os.environ["PEERS_URL"]
NAP_SECONDS = float(os.environ.get("PEERS_NAP", "2"))
TASKS = ("noop", "mark", "nap")
STDIN = 0

STRIDE = 20
"""A worker process notes every so manieth no-op job: a line each would cost more than the job."""
RATE = 300
PAUSE_MIN, PAUSE_MAX = 0.005, 0.025


def now_us() -> int:
    return time.time_ns() // 1_000


class Trace:
    """Notes what handlers do in a file that all processes of a worker append to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._start()
        os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pid = os.getpid()
        self._numbers = itertools.count(1)  # threads share it: next() of it is one step

    def ran(self) -> None:
        """Count a no-op job."""
        number = next(self._numbers)
        if number == 1 or number % STRIDE == 0:
            os.write(self._file, b"ran %d %d %d\n" % (self._pid, number, now_us()))

    def note(self, what: bytes, number: int) -> None:
        """Note that job *number* began or ended."""
        at = now_us()
        os.write(self._file, b"%s %d %d\n" % (what, number, at))


TRACE = Trace(os.environ["PEERS_TRACE"])


def noop(number: int) -> None:
    TRACE.ran()


def mark(number: int) -> None:
    TRACE.note(b"began", number)


def nap(number: int) -> None:
    TRACE.note(b"began", number)
    time.sleep(NAP_SECONDS)
    TRACE.note(b"ended", number)


async def nap_async(number: int) -> None:
    TRACE.note(b"began", number)
    await asyncio.sleep(NAP_SECONDS)
    TRACE.note(b"ended", number)


class Sender(ABC):
    """Submits jobs."""

    @abstractmethod
    async def one(self, task: str, number: int) -> object:
        """Submit one job; return when the queue says that it has it."""

    async def scheduled(self, task: str, number: int) -> object:
        """The same while others are under way."""
        return await self.one(task, number)

    async def bulk(self, count: int) -> None:
        """Submit *count* no-op jobs by the call that the queue has for many, or one by one."""
        for number in range(count):
            await self.one("noop", number)


class BlockingSender(Sender):
    """Submits by calls that block."""

    @abstractmethod
    def submit(self, task: str, number: int) -> object: ...

    async def one(self, task: str, number: int) -> object:
        return self.submit(task, number)

    async def scheduled(self, task: str, number: int) -> object:
        return await asyncio.to_thread(self.submit, task, number)


async def singles(sender: Sender, count: int, first: int) -> Any:
    start = time.monotonic()
    for number in range(count):
        await sender.one("noop", number)
    return {"seconds": time.monotonic() - start}


async def bulk(sender: Sender, count: int, first: int) -> Any:
    start = time.monotonic()
    await sender.bulk(count)
    return {"seconds": time.monotonic() - start}


async def idle(sender: Sender, count: int, first: int) -> Any:
    calls = []
    for number in range(first, first + count):
        await asyncio.sleep(random.uniform(PAUSE_MIN, PAUSE_MAX))
        calls.append((number, now_us()))
        await sender.one("mark", number)
    return {"calls": calls}


async def steady(sender: Sender, count: int, first: int) -> Any:
    """Submit on time, whether or not the calls before have returned."""
    start = time.monotonic()
    calls, under_way = [], []
    for number in range(first, first + count):
        await asyncio.sleep(max(start + (number - first) / RATE - time.monotonic(), 0))
        calls.append((number, now_us()))
        under_way.append(asyncio.ensure_future(sender.scheduled("mark", number)))
    await asyncio.gather(*under_way)
    return {"calls": calls}


async def naps(sender: Sender, count: int, first: int) -> Any:
    for number in range(first, first + count):
        await sender.one("nap", number)
    return {}


ORDERS = {each.__name__: each for each in (singles, bulk, idle, steady, naps)}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def take_orders(sender: Sender) -> None:
    """Do what standard input says, until it ends."""
    say("ready")
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        answer = await ORDERS[order["do"]](sender, order["count"], order.get("first", 0))
        say(json.dumps(answer))


def wait_for_go() -> None:
    """Say that everything is imported, and wait for the word to begin.

    From then on the end of standard input ends the process: none outlives the bench.
    """
    say("ready")
    os.read(STDIN, 64)
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    while os.read(STDIN, 64):
        pass
    os._exit(0)


def main(
    *,
    prepare: Callable[[], object],
    submit: Callable[[], Awaitable[None]],
    work: Callable[[], object],
) -> None:
    """Play the role that the command line names."""
    role = sys.argv[1]
    if role == "prepare":
        prepare()
    elif role == "submit":
        asyncio.run(submit())  # type: ignore[arg-type] # a coroutine, from a coroutine function
    else:
        work()


def nothing() -> None:
    """Prepare a store that needs nothing."""

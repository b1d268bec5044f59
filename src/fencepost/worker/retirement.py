"""When a worker process is replaced, and how: after some jobs, or when it uses too much memory.

It then claims no more jobs, and its run ends with the last of those it has: nothing is interrupted,
and no attempt is lost. The limit of memory is for leaks: a process rarely gives memory back.

A supervisor starts a fresh process when one ends with a certain code. Without a supervisor, the
process starts its program again in its place, under the same process id.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import suppress
from random import Random
from typing import NoReturn

from fencepost.clock import Clock
from fencepost.core.bounds import (
    MAX_JOBS_MAX,
    MAX_RSS_MAX,
    MAX_RSS_MIN,
    RETIRED_PATIENCE,
    RETIREMENT_JITTER,
    RSS_INTERVAL,
)
from fencepost.core.display import shown
from fencepost.core.values.names import check_count
from fencepost.errors import ConfigurationError
from fencepost.platform.processes import resident_memory
from fencepost.platform.system import current
from fencepost.worker.run.slots import WorkerSlots
from fencepost.worker.shutdown import Shutdown

REPLACE_CODE = 75
"""Exit code of a process that is to be replaced: see ``Worker.is_retiring``."""
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMG]i?B)?", re.ASCII | re.IGNORECASE)


def check_max_jobs(value: object) -> int | None:
    """Return *value*, a number of jobs, or raise ConfigurationError."""
    return None if value is None else check_count(value, "max_jobs", 1, MAX_JOBS_MAX)


def parse_max_rss(value: object) -> int | None:
    """Return *value* in bytes, or raise ConfigurationError if no job could run within it."""
    if value is None:
        return None
    limit = parse_size(value, "max_rss", MAX_RSS_MIN, MAX_RSS_MAX)
    now = resident_memory()
    if not now:
        raise ConfigurationError(
            "max_rss: this system does not say how much memory a process has; use max_jobs"
        )
    if now >= limit * (1 - RETIREMENT_JITTER):
        raise ConfigurationError(
            f"max_rss is {shown(value)}, but this process has {as_megabytes(now)} before its first "
            f"job, and would be replaced at once; allow twice that, or more"
        )
    return limit


class Retirement:
    """Watches the memory of this process, and limits the jobs of one run."""

    def __init__(
        self,
        slots: WorkerSlots,
        shutdown: Shutdown,
        clock: Clock,
        *,
        max_jobs: int | None,
        max_rss: int | None,
    ) -> None:
        self._slots = slots
        self._shutdown = shutdown
        self._clock = clock
        self._max_rss = None if max_rss is None else _earlier(max_rss, clock.rng)
        if max_jobs is not None:
            slots.share = _earlier(max_jobs, clock.rng)

    async def watch(self) -> None:
        """Watch until cancelled, and retire the process once it uses too much memory."""
        while self._max_rss is not None:
            await self._clock.sleep_async(RSS_INTERVAL)
            rss = resident_memory()
            # After one job at least: a process that retires at once would never run any.
            if rss > self._max_rss and self._slots.turn and not self._shutdown.is_retiring:
                self._shutdown.retire_at_limit("max_rss", self._slots, rss=as_megabytes(rss))
                self._slots.news.set()


class Replacement:
    """How this process is replaced, if it comes to that."""

    def __init__(self, clock: Clock, *, is_supervised: bool) -> None:
        self._clock = clock
        self._is_supervised = is_supervised
        self._folder = os.getcwd()
        """The folder where the program was started: a handler may have changed to another."""

    def watch(self) -> None:
        """Replace this process after a while, even if something keeps it from ending.

        Its run is over. But a lifespan may hang as it is left, and Python waits for every thread
        of ``asyncio.to_thread``: such a process would claim nothing, and never end.
        """
        threading.Thread(target=self._wait, name="fencepost-replacement", daemon=True).start()

    def make(self) -> NoReturn:
        """Replace this process now."""
        if self._is_supervised:
            sys.exit(REPLACE_CODE)
        self._start_again()

    def _wait(self) -> None:
        self._clock.sleep(RETIRED_PATIENCE)
        if self._is_supervised:
            os._exit(REPLACE_CODE)
        self._start_again()

    def _start_again(self) -> NoReturn:
        # execv keeps the process id, for whatever monitors it, and ends every thread.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        if not current().has_exec:
            os._exit(REPLACE_CODE)  # for a service manager; `fencepost worker` has a supervisor
        with suppress(OSError):
            os.chdir(self._folder)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _earlier(limit: int, rng: Random) -> int:
    return limit - int(limit * RETIREMENT_JITTER * rng.random())


def parse_size(value: object, name: str, minimum: int, maximum: int) -> int:
    """Return *value* in bytes, or raise ConfigurationError; a number without a unit is in MB."""
    found = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise ConfigurationError(f"{name} is a size such as 512MB or 2GB, got {shown(value)}")
    size = round(float(found[1]) * _UNITS[(found[2] or "MB").upper()])
    if not minimum <= size <= maximum:
        raise ConfigurationError(
            f"{name} must lie between {as_megabytes(minimum)} and {as_megabytes(maximum)}, "
            f"got {shown(value)}"
        )
    return size


def as_megabytes(size: int) -> str:
    """Return a number of bytes for people."""
    return f"{size / 10**6:,.0f} MB"

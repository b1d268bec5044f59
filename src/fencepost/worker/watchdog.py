"""Notices that a handler blocks the event loop, and says which one, and where.

A blocked loop cannot speak for itself, so a thread asks it for a sign of life. If none comes, the
thread looks at what the loop's thread is executing at that moment.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

from fencepost.clock import SystemClock
from fencepost.core.bounds import LAG_WARNING
from fencepost.core.job.job import ClaimedJob
from fencepost.observe import names
from fencepost.observe.log import PACKAGE, known, write
from fencepost.worker.run.attempt import RunningAttempt
from fencepost.worker.run.batch import RunningBatch

INTERVAL = 0.25
"""Seconds between two signs of life."""
AGAIN = 10.0
"""Seconds after which a loop that is still blocked is reported again."""

_LIBRARIES = tuple(
    {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_path("purelib")}
)


class LoopBlocker(NamedTuple):
    """What blocked the loop: the job whose handler ran, if it was one, and the line of code."""

    job: ClaimedJob | None
    where: str


class Watchdog:
    """Watches one loop, from ``start`` to ``stop``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._clock = SystemClock()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fencepost-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()

    def _watch(self) -> None:
        while not self._is_stopping.wait(INTERVAL):
            turned = threading.Event()
            since = self._clock.monotonic()
            try:
                self._loop.call_soon_threadsafe(turned.set)
            except RuntimeError:  # the loop has been closed
                return
            if not turned.wait(LAG_WARNING):
                self._report(turned, since)

    def _report(self, turned: threading.Event, since: float) -> None:
        blocker = self._blocker()
        while not self._is_stopping.is_set():
            has_turned = turned.wait(AGAIN)
            seconds = self._clock.monotonic() - since
            if self._is_stopping.is_set() and not has_turned:
                return
            _log(blocker, seconds, is_over=has_turned)
            if has_turned:
                return

    def _blocker(self) -> LoopBlocker:
        frame = sys._current_frames().get(self._thread_id)
        frames = list(_outwards(frame))
        runs = (RunningAttempt.run.__code__, RunningBatch.run.__code__)
        attempt = next((each.f_locals["self"] for each in frames if each.f_code in runs), None)
        theirs = (each for each in frames if not each.f_code.co_filename.startswith(_LIBRARIES))
        theirs = (each for each in theirs if not each.f_code.co_filename.startswith(PACKAGE))
        found = next(theirs, frames[0] if frames else None)
        where = "" if found is None else f"{found.f_code.co_filename}:{found.f_lineno}"
        return LoopBlocker(None if attempt is None else attempt.job, where)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _log(blocker: LoopBlocker, seconds: float, *, is_over: bool) -> None:
    job, where = blocker
    blocked = "blocked the event loop for" if is_over else "has blocked the event loop for"
    subject = "code outside of handlers" if job is None else f"{job.type} {job.id}"
    fields = {
        "id": None if job is None else job.id,
        "type": None if job is None else job.type,
        "attempt": None if job is None else job.attempt,
        "seconds": seconds,
        "where": where,
    }
    text = (
        f"{subject} {blocked} {seconds:.1f} s, at {where}: no other job went on; make its handler "
        'a plain `def`, or set isolation="process"'
    )
    write(names.LOOP_LAG, known(fields), level=logging.WARNING, text=text)

"""Which files one job passes in a worker: ``python tools/job_path.py [--calls] [--store URL]``.

A worker on the main thread runs some jobs, one after the other, until it is warm. Then another
thread submits one more, and every call on the main thread into the package is recorded until the
worker is idle again. It prints how many files were called, and how often a call went into another
file than the call before. Background services may run meanwhile, so several jobs are recorded, and
the one with the fewest changes counts.

A worker on a loop of its own claims in the main thread, so the first figures contain the store's
own files. The second figures leave out what runs beneath a call of the store.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import fencepost
from fencepost import App

PACKAGE = str(Path(fencepost.__file__).parent) + "/"
STORE = PACKAGE + "store/"
WARM = 50
JOBS = 40
QUIET = 0.03
"""Seconds until the worker has recorded the job and waits again."""


class Call(NamedTuple):
    """A call of a function of the package, or a coroutine of it that goes on."""

    file: str
    name: str
    is_beneath_store: bool


class Recorder:
    """Records the calls of one thread into the package."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def start(self) -> None:
        self.calls = []
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        file = frame.f_code.co_filename.removeprefix(PACKAGE)
        self.calls.append(Call(file, frame.f_code.co_qualname, _is_beneath(frame, STORE)))


def _is_beneath(frame: FrameType | None, folder: str) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(folder):
            return True
        frame = frame.f_back
    return False


def changes(calls: list[Call]) -> int:
    """Count the calls into another file than that of the call before."""
    return sum(before.file != after.file for before, after in pairwise(calls))


def figures(calls: list[Call]) -> str:
    files = {call.file for call in calls}
    return f"{len(files)} files, {changes(calls)} changes of file, {len(calls)} calls"


def record(url: str) -> list[list[Call]]:
    """Return the calls of each of some jobs that a warm worker runs alone."""
    app = App(url)

    @app.task
    async def noop() -> None:
        pass

    app.migrate()
    worker = app.worker(concurrency=20)
    recorder, found = Recorder(), []
    ready = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def submit() -> None:
        ready.wait()
        (loop,) = loops
        for _ in range(WARM):
            noop.submit().result(timeout=10)
        pause = threading.Event()
        for _ in range(JOBS):
            pause.wait(QUIET)
            began = threading.Event()
            loop.call_soon_threadsafe(lambda: (recorder.start(), began.set()))  # noqa: B023
            began.wait()
            noop.submit().result(timeout=10)
            pause.wait(QUIET)
            ended = threading.Event()
            loop.call_soon_threadsafe(lambda: (recorder.stop(), ended.set()))  # noqa: B023
            ended.wait()
            found.append(recorder.calls)
        worker.stop()

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        ready.set()
        await worker.run_async(owns_loop=True)

    thread = threading.Thread(target=submit)
    thread.start()
    asyncio.run(main())
    thread.join()
    app.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="a store's URL; a new SQLite file if none is given")
    parser.add_argument("--calls", action="store_true", help="list the calls, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = record(args.store or f"sqlite:///{folder}/jobs.db")
    calls = min(found, key=changes)
    own = [call for call in calls if not call.is_beneath_store]
    lines = [f"{call.file:40} {call.name}" for call in calls] if args.calls else []
    lines += [f"{n:6} {file}" for file, n in Counter(call.file for call in calls).most_common()]
    lines += [f"all: {figures(calls)}", f"without the store: {figures(own)}"]
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()

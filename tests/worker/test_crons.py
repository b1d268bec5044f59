"""Workers in processes of their own, with a cron: each tick once, though one of them is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from tests.worker.programs.cron import make_app
from tests.worker.support import LONG, eventually_sync

from fencepost import App

PROGRAM = Path(__file__).parent / "programs" / "cron.py"


@contextmanager
def worker(url: str, origin: float) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, str(PROGRAM), url, str(origin)])
    try:
        yield process
    finally:
        process.kill()
        process.wait(LONG)


def ticks(app: App) -> list[datetime]:
    """Return the tick of every job that the cron has made, in the order of submission."""
    jobs = reversed(app.jobs.find(limit=1000).jobs)
    return [datetime.fromisoformat(str(job.key).removeprefix("cron:tick:")) for job in jobs]


def test_two_processes_fire_each_tick_once_though_one_is_killed(tmp_path: Path) -> None:
    url, origin = f"sqlite:///{tmp_path}/jobs.db", time.time()
    with make_app(url, origin) as app, worker(url, origin) as first, worker(url, origin) as second:
        eventually_sync(lambda: len(ticks(app)) >= 3 and len(app.workers.list()) == 2, "both work")
        before = len(ticks(app))
        eventually_sync(lambda: len(ticks(app)) >= before + 2, "ticks of two workers")
        first.kill()
        first.wait(LONG)
        before = len(ticks(app))
        eventually_sync(lambda: len(ticks(app)) >= before + 2, "ticks of the other")
        second.kill()
        second.wait(LONG)
        fired = ticks(app)
    assert fired == [fired[0] + n * timedelta(minutes=1) for n in range(len(fired))]

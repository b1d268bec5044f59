"""The program of the crash tests: ``crew.py ROLE URL LEDGER``, a real process to be killed.

What its handlers do is written, a line each, to a ledger outside the store; so are the counters of
a worker that is asked to stop.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from fencepost import App, Context, Retry, Timeouts
from fencepost.worker.run.heartbeater import Heartbeater
from fencepost.worker.run.settler import Settler

LEASE_TTL = 1.5
_, ROLE, URL, LEDGER = sys.argv if len(sys.argv) == 4 else ("", "", "sqlite:///unused.db", "")

app = App(
    URL,
    retry=Retry(max_attempts=3, initial_delay=0.1),
    timeouts=Timeouts(lease_ttl=LEASE_TTL),
)


def note(event: str, **fields: object) -> None:
    """Append one line; a write this short is not torn, also by SIGKILL."""
    line = json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n"
    fd = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def began(ctx: Context) -> None:
    note("started", id=ctx.job_id, attempt=ctx.attempt)


@app.task
async def stay_on_first(ctx: Context, gate: str) -> int:
    """Stay until the gate is there on the first attempt; later ones return at once."""
    began(ctx)
    try:
        while ctx.attempt == 1 and not Path(gate).exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        note("interrupted", id=ctx.job_id, reason=ctx.cancel_reason)
        raise
    note("finished", id=ctx.job_id, attempt=ctx.attempt)
    return os.getpid()


@app.task
async def stay(ctx: Context, gate: str) -> int:
    """Stay until the gate is there, on every attempt but the first, which ends with its pause."""
    began(ctx)
    is_first = ctx.previous_attempt_id is None
    while not is_first and not Path(gate).exists():
        await asyncio.sleep(0.01)
    if is_first:
        time.sleep(0.2)  # on the loop: whatever stops the process, stops it here
    note("finished", id=ctx.job_id, attempt=ctx.attempt)
    return os.getpid()


@app.task
def work(ctx: Context, seconds: float) -> int:
    began(ctx)
    time.sleep(seconds)
    note("finished", id=ctx.job_id, attempt=ctx.attempt)
    return os.getpid()


@app.task
async def kill(ctx: Context) -> None:
    """End the process in its first line."""
    began(ctx)
    os.kill(os.getpid(), signal.SIGKILL)


def isolated(ctx: Context, child_of: str) -> int:
    """Outlive every test on the first attempt, in a child process."""
    began(ctx)
    time.sleep(60 if ctx.attempt == 1 else 0)
    return os.getpid()


app.task(isolation="process")(isolated)


def run_worker(grace: float = 1.0) -> None:
    worker = app.worker(concurrency=4, grace=grace)
    worker.run()
    note("stopped", counters=app.session.counters.snapshot())


def run_deaf_worker() -> None:
    """A worker whose heart does not beat: it learns nothing until it settles."""
    Heartbeater.step = lambda self: 60.0  # type: ignore[method-assign]  # that is the point
    run_worker()


def run_worker_that_dies_before_ack() -> None:
    """A worker killed between the end of a handler and the record of it."""

    def post(self: Settler, *, blocks: bool = True) -> None:
        if self.pending:
            os.kill(os.getpid(), signal.SIGKILL)

    Settler.post = post  # type: ignore[method-assign]  # that is the point
    run_worker()


def submit_and_die() -> None:
    job = work.using(key="only").submit(0.0)
    note("submitted", id=job.id)
    os.kill(os.getpid(), signal.SIGKILL)


async def submit_async_and_die() -> None:
    job = await work.using(key="only").aio.submit(0.0)
    note("submitted", id=job.id)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    match ROLE:
        case "worker":
            run_worker()
        case "patient":
            run_worker(grace=20.0)
        case "deaf":
            run_deaf_worker()
        case "dies-before-ack":
            run_worker_that_dies_before_ack()
        case "producer":
            submit_and_die()
        case "async-producer":
            asyncio.run(submit_async_and_die())

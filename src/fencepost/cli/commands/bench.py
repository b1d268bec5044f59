"""``fencepost bench``: how fast your own store is, and what limits it.

The bounds of the verdicts are a half to a fifth of what two shared cores of a cloud machine do
(``docs/performance.md``), plus what waiting for the disk or the network costs on this one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

import click
import msgspec

from fencepost.cli.announcement import durability
from fencepost.cli.commands.bench_run import BenchRun, Measured, timed
from fencepost.cli.options import Settings, option, sqlite_path, store_options
from fencepost.cli.output import Columns, echo, echo_json, echo_table, rows_of
from fencepost.core.bounds import BULK_MAX, CONCURRENCY_DEFAULT, POLL_INTERVAL
from fencepost.core.display import shown_url
from fencepost.platform.signals import INTERRUPTING, handled
from fencepost.store.url import URL_VARIABLE, shared_url

if TYPE_CHECKING:
    from fencepost.app import App

JOBS_DEFAULT = 5_000
PROBES = 20
FLUSHED_BYTES = 4_096

SUBMIT_SECONDS = 0.002
"""For one submission, without the wait for disk or network."""
SUBMIT_WAITS = 4
"""How many flushes or round trips a submission may take."""
BULK_RATE = 10_000
DRAIN_RATE = 3_000
DRAIN_WAITS = 4
"""Round trips or flushes per batch of one job per slot: a claim, a settlement, slack."""
PICKUP_SECONDS = 0.010
PICKUP_WAITS = 6
TAIL = 5
"""How many times the median the 99th percentile of pickups may take."""
POLLED = POLL_INTERVAL / 4
"""A median above this means that the worker polls and is not notified."""


@click.command()
@option(
    "--jobs",
    type=click.IntRange(1, BULK_MAX),
    default=JOBS_DEFAULT,
    help="How many jobs to submit in bulk and to drain; the other samples are no more than this.",
)
@store_options
def bench(settings: Settings, jobs: int) -> None:
    """Measure a store: submit, drain and pickup, with a real worker process.

    Measures the store of --url or FENCEPOST_URL; without one, a temporary SQLite file in this
    folder. Its jobs have their own queue and type and are removed at the end. It does not touch
    your jobs, but it and busy workers slow each other down.
    """
    if settings.url.partition(":")[0].lower() == "memory":
        raise click.UsageError("memory:// lives in one process; no worker process can share it")
    is_named = settings.is_url_given or os.environ.get(URL_VARIABLE) or shared_url()
    with (
        _interruptible() as check,
        tempfile.TemporaryDirectory(prefix=".fencepost-bench-", dir=".") as name,
    ):
        folder = Path(name).resolve()
        if not is_named:
            settings.url = f"sqlite:///{quote(str(folder / 'bench.db'))}"
        with settings.opened(must_exist=bool(is_named)) as app:
            report = _measure(app, folder, jobs, check)
    if not is_named:
        report["store"] = "a temporary SQLite file in this folder"
    if report["workers"]:
        echo(f"{report['workers']} of your workers are running; they affect the figures", err=True)
    if settings.as_json:
        echo_json(report)
        return
    echo(f"{report['store']} ({report['durability']})")
    echo_table(COLUMNS, rows_of(COLUMNS, report["figures"]))


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """Yield a check that raises KeyboardInterrupt after a signal to stop.

    SIGTERM and SIGHUP are treated as Ctrl-C. The first signal takes effect at the next check: in
    the middle of a write, it would leave a store that cannot remove the jobs. A second one takes
    effect at once.
    """
    is_asked = False

    def note(*_: object) -> None:
        nonlocal is_asked
        check()
        is_asked = True

    def check() -> None:
        if is_asked:
            raise KeyboardInterrupt

    with handled(INTERRUPTING, note):
        yield check


def _measure(app: App, folder: Path, jobs: int, check: Callable[[], None]) -> dict[str, Any]:
    workers = len(app.workers.list())
    with BenchRun(app, folder, jobs=jobs, check=check) as run:
        wait = _wait(app)
        lines = judge(run.measure(), wait)
    return {
        "store": shown_url(app.url),
        "durability": durability(app),
        "jobs": jobs,
        "workers": workers,
        "wait": wait,
        "figures": lines,
        "is_expected": all(line.is_expected for line in lines),
    }


class WriteWait(msgspec.Struct, frozen=True):
    """What a write to this store waits for."""

    what: Literal["disk", "round trip", "nothing"]
    seconds: float = 0.0

    def __str__(self) -> str:
        named = {"disk": "a flush of this disk", "round trip": "a round trip to the server"}
        return f"{named[self.what]} takes {_ms(self.seconds)}" if self.what in named else ""


def _wait(app: App) -> WriteWait:
    """Measure what a write to this store waits for: the local disk, or a server."""
    clock, path = app.store.clock, sqlite_path(app.url)
    if path is None:
        ask = app.store.settings.app_limit  # the smallest request
        times = [timed(clock, lambda: app.store.run(ask())) for _ in range(PROBES)]
        return WriteWait("round trip", median(times))
    if "durability=process" in urlsplit(app.url).query:
        return WriteWait("nothing")
    with tempfile.TemporaryFile(dir=path.resolve().parent, prefix=".fencepost-bench-") as file:
        times = []
        for _ in range(PROBES):
            file.write(bytes(FLUSHED_BYTES))
            file.flush()
            times.append(timed(clock, lambda: os.fsync(file.fileno())))
    return WriteWait("disk", median(times))


class FigureLine(msgspec.Struct, frozen=True):
    """One figure and its verdict."""

    name: str
    title: str
    value: float
    unit: Literal["jobs/s", "ms"]
    is_expected: bool
    verdict: str

    @classmethod
    def of(
        cls, name: str, title: str, value: float, is_expected: bool, why: str, hint: str
    ) -> FigureLine:
        """Make one of a rate, or for a pickup of seconds; *hint* is for one that is too slow."""
        judged = "as expected" if is_expected else "slower than expected"
        verdict = f"{judged}: {why}{'' if is_expected else hint}"
        if name.startswith("pickup"):
            return cls(name, title, round(value * 1e3, 3), "ms", is_expected, verdict)
        return cls(name, title, round(value, 1), "jobs/s", is_expected, verdict)


COLUMNS: Columns[FigureLine] = {
    "MEASURED": lambda line: line.title,
    "FIGURE": lambda line: f"{line.value:,.{0 if line.unit == 'jobs/s' else 1}f} {line.unit}",
    "VERDICT": lambda line: line.verdict,
}


def judge(measured: Measured, wait: WriteWait) -> list[FigureLine]:
    """Return the lines of the report."""
    pickup = _percentile(measured.pickups, 0.5)
    return [
        _submit_line(measured, wait),
        _bulk_line(measured, wait),
        _drain_line(measured, wait),
        _pickup_line(pickup, median(measured.submits), wait),
        _tail_line(_percentile(measured.pickups, 0.99), pickup),
    ]


def _percentile(samples: Sequence[float], fraction: float) -> float:
    """Return the sample below which *fraction* of the samples lie."""
    return sorted(samples)[min(int(len(samples) * fraction), len(samples) - 1)]


def _submit_line(measured: Measured, wait: WriteWait) -> FigureLine:
    why = {
        "disk": f"each submission waits until the disk has it, and {wait}; concurrent callers "
        "share one flush",
        "round trip": f"each submission waits for the server's commit, and {wait}; concurrent "
        "callers share one commit",
        "nothing": "limited by the processor; nothing waits for the disk (durability=process)",
    }[wait.what]
    is_expected = median(measured.submits) <= SUBMIT_SECONDS + SUBMIT_WAITS * wait.seconds
    hint = "; the rest is processor time here or the disk of the server: is it busy?"
    rate = len(measured.submits) / sum(measured.submits)
    return FigureLine.of("submit", "submit, one by one", rate, is_expected, why, hint)


def _bulk_line(measured: Measured, wait: WriteWait) -> FigureLine:
    seconds = measured.jobs / measured.bulk
    is_expected = seconds <= measured.jobs / BULK_RATE + 0.05 + SUBMIT_WAITS * wait.seconds
    why = f"one transaction of {measured.jobs:,} jobs, limited by the processor"
    hint = f"; {BULK_RATE:,} jobs/s and more are usual: is the machine or the server busy?"
    return FigureLine.of("submit-many", "submit, in bulk", measured.bulk, is_expected, why, hint)


def _drain_line(measured: Measured, wait: WriteWait) -> FigureLine:
    slots = CONCURRENCY_DEFAULT
    waiting = DRAIN_WAITS * wait.seconds / slots
    expected = 1 / (1 / DRAIN_RATE + waiting)
    if waiting > 1 / DRAIN_RATE:
        why = f"a batch of {slots} waits for its claim and its settlement, and {wait}; more slots "
        why += "or processes drain more"
    else:
        why = f"one process with {slots} slots, limited by the processor; more processes drain more"
    hint = f"; {expected:,.0f} jobs/s and more are usual here: is the machine busy?"
    is_expected = measured.drain >= expected
    return FigureLine.of("drain", "drain, one process", measured.drain, is_expected, why, hint)


def _pickup_line(seconds: float, submit: float, wait: WriteWait) -> FigureLine:
    is_expected = seconds <= PICKUP_SECONDS + PICKUP_WAITS * wait.seconds
    why = f"from the call of submit, which itself takes {_ms(submit)}, to the start of the handler"
    hint = "; is the machine busy?"
    if seconds > POLLED:
        why += "; the worker polls: notifications do not reach it, see `fencepost doctor`"
        hint = ""
    return FigureLine.of("pickup.p50", "pickup, p50", seconds, is_expected, why, hint)


def _tail_line(seconds: float, usual: float) -> FigureLine:
    is_expected = seconds <= max(TAIL * usual, TAIL * PICKUP_SECONDS)
    why = "one pickup in a hundred takes longer"
    hint = "; usual causes are other work on the machine and a disk that stalls"
    return FigureLine.of("pickup.p99", "pickup, p99", seconds, is_expected, why, hint)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"

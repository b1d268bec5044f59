"""``fencepost bench``: how fast your own store is, and what limits it."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings, sqlite_path
from fencepost.core.bounds import BULK_MAX
from fencepost.store.environment import URL_VARIABLE, shared_url

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.cli.bench.run import BenchRun
    from fencepost.cli.bench.verdict import FigureLine, WriteWait
    from fencepost.clock import Clock

JOBS_DEFAULT = 5_000
FLUSHES = 20
FLUSHED_BYTES = 4_096
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command()
@option(
    "--jobs",
    type=click.IntRange(1, BULK_MAX),
    default=JOBS_DEFAULT,
    show_default=True,
    help="Jobs of the bulk and of the drain; a small number makes all else small as well.",
)
@url_option
@json_option
@pass_settings
def bench(settings: Settings, jobs: int, as_json: bool) -> None:
    """Measure a store: submit, drain and pickup, with a real worker process.

    Measures the store of --url or FENCEPOST_URL; without one, a temporary SQLite file in this
    folder. Uses a queue and a type of its own and removes its jobs at the end; your jobs are not
    touched, but workers that are busy meanwhile and the bench slow each other down.
    """
    with (
        _interruptible() as check,
        tempfile.TemporaryDirectory(prefix=".fencepost-bench-", dir=".") as folder,
    ):
        is_ours = _choose_store(settings, Path(folder).resolve())
        with settings.opened(must_exist=not is_ours) as app:
            report = _measure(app, Path(folder), jobs, check)
        if is_ours:
            report["store"] = "a temporary SQLite file in this folder"
    _echo(report, as_json=as_json)


def _choose_store(settings: Settings, folder: Path) -> bool:
    """Have a file in *folder* measured, unless a store was named; return whether it is."""
    if settings.url.partition(":")[0].lower() == "memory":
        raise click.UsageError("memory:// lives in one process; no worker process can share it")
    if settings.is_url_given or os.environ.get(URL_VARIABLE) or shared_url():
        return False
    settings.url = f"sqlite:///{quote(str(folder / 'bench.db'))}"
    return True


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """Yield a check that raises KeyboardInterrupt once a signal has asked us to stop.

    SIGTERM and a terminal that is closed are treated as Ctrl-C. The first signal waits for the
    check: in the middle of a write it would leave a store that cannot remove the jobs. The second
    does not wait.
    """
    is_asked = False

    def note(*_: object) -> None:
        nonlocal is_asked
        if is_asked:
            raise KeyboardInterrupt
        is_asked = True

    def check() -> None:
        if is_asked:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in STOPPING}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _measure(app: App, folder: Path, jobs: int, check: Callable[[], None]) -> dict[str, Any]:
    from fencepost.cli.bench.run import BenchRun
    from fencepost.cli.bench.verdict import judge
    from fencepost.core.display import shown_url

    workers = len(app.workers.list())
    with BenchRun(app, folder, jobs=jobs, check=check) as run:
        wait = _wait(app, run)
        lines = judge(run.measure(), wait)
    findings = app.store.run(app.store.overview.inspect())
    return {
        "store": shown_url(app.url),
        "durability": next((f.text for f in findings if f.code == "durability"), ""),
        "jobs": jobs,
        "workers": workers,
        "wait": wait,
        "figures": lines,
        "is_expected": all(line.is_expected for line in lines),
    }


def _wait(app: App, run: BenchRun) -> WriteWait:
    """Return what a write to this store waits for: the disk here, or a server."""
    from fencepost.cli.bench.verdict import WriteWait

    path = sqlite_path(app.url)
    if path is None:
        return WriteWait("round trip", run.round_trip())
    if "durability=process" in urlsplit(app.url).query:
        return WriteWait("nothing")
    return WriteWait("disk", _flush(path.resolve().parent, app.store.clock))


def _flush(folder: Path, clock: Clock) -> float:
    """Return the seconds that the disk under *folder* takes to confirm a small write."""
    times = []
    with tempfile.TemporaryFile(dir=folder, prefix=".fencepost-bench-") as file:
        for _ in range(FLUSHES):
            file.write(bytes(FLUSHED_BYTES))
            file.flush()
            begun = clock.monotonic()
            os.fsync(file.fileno())
            times.append(clock.monotonic() - begun)
    return sorted(times)[FLUSHES // 2]


def _echo(report: dict[str, Any], *, as_json: bool) -> None:
    from fencepost.cli.output import echo_json, echo_table

    if report["workers"]:
        echo(
            f"{report['workers']} workers of yours are alive; the figures depend on them", err=True
        )
    if as_json:
        echo_json(report)
        return
    echo(f"{report['store']} ({report['durability']})")
    echo_table(("MEASURED", "FIGURE", "VERDICT"), [_row(line) for line in report["figures"]])


def _row(line: FigureLine) -> tuple[str, str, str]:
    digits = 0 if line.unit == "jobs/s" else 1
    return line.title, f"{line.value:,.{digits}f} {line.unit}", line.verdict

"""``fencepost demo``: jobs run, fail and survive a killed and a frozen worker, as you watch."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import click

from fencepost.cli import output
from fencepost.cli.announcement import durability
from fencepost.cli.apps import point
from fencepost.cli.commands.frame import Activity, frame
from fencepost.cli.commands.top import take
from fencepost.cli.demo.dashboard import serve_dashboard
from fencepost.cli.demo.processes import DemoServer, DemoWorkers
from fencepost.cli.demo.scenario import DemoJob, DemoScenario, ScenarioError, View
from fencepost.cli.demo.tasks import app
from fencepost.cli.demo.traffic import submit_some
from fencepost.cli.options import DURATION, Settings, option, pass_settings
from fencepost.cli.output import clean, echo
from fencepost.cli.table import lay_out

if TYPE_CHECKING:
    from fencepost.clock import Clock

COLUMNS = ("SCENARIO", "TYPE", "STATE", "ATTEMPT", "NOW")
DATABASE = "jobs.db"
TRICKLE_INTERVAL = 0.5
WORKERS = 2
STORES = ("sqlite", "redis")


@click.command()
@option("--exit", "ends", is_flag=True, help="Exit when the scenario is finished.")
@option(
    "--store",
    type=click.Choice(STORES),
    default=STORES[0],
    show_default=True,
    help="Where to keep the jobs; for redis, a server of its own is started.",
)
@option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the database and the logs in this folder; by default a temporary one.",
)
@option("--lease-ttl", type=DURATION, default=2.0, show_default="2s", help="How long leases last.")
@pass_settings
def demo(settings: Settings, ends: bool, store: str, path: Path | None, lease_ttl: float) -> None:
    """Watch jobs run, fail, crash, recover and finish, with real worker processes.

    Exits with 0 only if every check passed.
    """
    signal.signal(signal.SIGTERM, _leave)
    with _folder(path) as folder, _store(store, folder) as url:
        settings.url = url
        point(app, settings.url)
        workers = DemoWorkers(folder, settings.url, lease_ttl, app.session.clock)
        try:
            _print_opening(settings)
            with nullcontext() if ends else serve_dashboard(app) as dashboard:
                if dashboard is not None:
                    click.echo(f"In a browser: {dashboard}/")
                is_proven, example = _play(workers, lease_ttl)
                is_file = store == "sqlite"
                _print_next(settings, example, ends=ends, is_file=is_file, is_kept=path is not None)
                if dashboard is not None:
                    _stay(workers, f"In a browser: {dashboard}/")
        except KeyboardInterrupt:
            click.echo("\nstopping the workers")
            is_proven = not ends
        finally:
            workers.stop()
            app.close()
    raise SystemExit(0 if is_proven else 1)


def _leave(*_: object) -> NoReturn:
    """Treat SIGTERM as Ctrl-C, so that nothing is left behind."""
    raise KeyboardInterrupt


@contextmanager
def _folder(path: Path | None) -> Iterator[Path]:
    """Yield the folder for the database: the given one, or one that is removed afterwards."""
    if path is not None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield path.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="fencepost-demo-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _store(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of the store: a file, or a server that ends with the block."""
    if kind == "sqlite":
        yield f"sqlite:///{quote(str(folder / DATABASE))}"
        return
    server = DemoServer(folder, app.session.clock)
    try:
        server.await_start()
        yield server.url
    finally:
        server.stop()


def _print_opening(settings: Settings) -> None:
    """Open the store, and say what it is."""
    where = "SQLite, no service installed"
    if settings.url.startswith("redis"):
        where = "Redis, a server of its own"
    click.echo(f"fencepost demo: durable jobs on {where} ({settings.url})")
    click.echo(durability(app))


def _play(workers: DemoWorkers, lease_ttl: float) -> tuple[bool, str]:
    """Run the scenario and print its summary; return whether it passed, and the id of a job."""
    trouble: str | None = None
    is_proven = False
    with shown(app.session.clock) as view:
        scenario = DemoScenario(app, workers, view, lease_ttl)
        try:
            is_proven = scenario.play()
        except ScenarioError as error:
            trouble = str(error)
    print_summary(scenario, trouble)
    if not is_proven:
        click.echo(workers.log_tails(), err=True)
    return is_proven, scenario.parts[-1].job_id if scenario.parts else "ID"


def _print_next(
    settings: Settings, example: str, *, ends: bool, is_file: bool, is_kept: bool
) -> None:
    """Print commands to try next."""
    click.echo()
    if ends and not is_file:
        click.echo("To look around, run `fencepost demo --store redis`, which keeps running.")
        return
    if ends and not is_kept:
        click.echo(
            "To look around, run `fencepost demo`, which keeps running, or `fencepost demo --exit"
        )
        click.echo(
            "--path ./demo`, which keeps its database for `jobs ls`, `dlq ls` and `jobs why`."
        )
        return
    click.echo("Next:" if ends else "In another terminal:")
    for words in (
        ("jobs", "ls"),
        ("dlq", "ls"),
        ("jobs", "show", example),
        ("jobs", "why", example),
        ("top",),
    ):
        click.echo(f"  {settings.say(*words)}")


def _stay(workers: DemoWorkers, address: str) -> None:
    """Submit jobs until Ctrl-C."""
    from rich.console import Group

    click.echo(f"\n{address}")
    click.echo("The workers keep running, with a few jobs per second. Ctrl-C ends the demo.")
    count = 0
    activity = Activity()
    foot = f"{address}   Ctrl-C ends the demo"
    with _live() if output.is_terminal() else nullcontext() as live:
        while True:
            count += 1
            submit_some(count)
            workers.keep(WORKERS)
            now = take(app)
            activity.add(now)
            if live is not None:
                width, height = live.console.size
                lines = frame(now, activity, (width, height - 1), foot=foot)
                live.update(Group(*output.for_terminal(lines)), refresh=True)
            app.session.clock.sleep(TRICKLE_INTERVAL)


@contextmanager
def shown(clock: Clock) -> Iterator[View]:
    """Show the scenario while it runs."""
    if not output.is_terminal():
        yield PlainView(clock)
        return
    with _live() as live:
        yield TerminalView(clock, live)


def _live() -> Any:
    from rich.live import Live

    return Live(console=output.console(), auto_refresh=False, transient=True)


class PlainView:
    """Prints a line for each step and for every change of a special job."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = clock.monotonic()
        self._seen: dict[str, tuple[object, ...]] = {}
        self._everyday = 0

    def say(self, text: str) -> None:
        echo(f"{self._clock.monotonic() - self._start:5.1f}s  {text}")

    def refresh(self, scenario: DemoScenario) -> None:
        for part in scenario.parts:
            job = part.job
            now = () if job is None else (job.state, job.attempt)
            if job is not None and self._seen.get(part.job_id) != now:
                self._seen[part.job_id] = now
                self.say(f"  {part.title:<15} {job.state:<12} {_now(part, scenario)}".rstrip())
        done = sum(part.is_over for part in scenario.everyday)
        if done != self._everyday and done == len(scenario.everyday):
            self.say(f"  everyday work   {done} of {len(scenario.everyday)} done")
        self._everyday = done


class TerminalView:
    """Prints each step; below them, a live table of the jobs."""

    def __init__(self, clock: Clock, live: Any) -> None:
        self._clock = clock
        self._live = live
        self._start = clock.monotonic()

    def say(self, text: str) -> None:
        from rich.text import Text

        seconds = f"{self._clock.monotonic() - self._start:5.1f}s  "
        self._live.console.print(Text(seconds, style="dim") + Text(clean(text), style="default"))

    def refresh(self, scenario: DemoScenario) -> None:
        self._live.update(render(scenario), refresh=True)


def render(scenario: DemoScenario) -> Any:
    """Return the progress bar and the table of jobs."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    done = sum(part.is_over for part in scenario.all_parts)
    total = len(scenario.all_parts)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=max(total, 1), completed=done, width=40), f"{done}/{total} jobs")
    table = lay_out(COLUMNS, rows(scenario), output.console().width)
    return Group(Text(), bar, Text(), *output.for_terminal(table))


def rows(scenario: DemoScenario) -> list[tuple[str, ...]]:
    """Return a row for the everyday work, and one for each special job."""
    found: list[tuple[str, ...]] = []
    if scenario.everyday:
        done = sum(part.is_right for part in scenario.everyday)
        state = "completed" if done == len(scenario.everyday) else "running"
        count = f"{done} of {len(scenario.everyday)} done"
        found.append(("everyday work", "send_mail, resize_image", state, "", count))
    for part in scenario.parts:
        job = part.job
        if job is not None:
            attempt = f"{job.attempt}/{job.max_attempts}"
            found.append((part.title, job.type, job.state, attempt, _now(part, scenario)))
    return found


def _now(part: DemoJob, scenario: DemoScenario) -> str:
    """Return what is happening to a job."""
    job = part.job
    if job is None:
        return ""
    if job.lease is not None and job.lease.expired:
        return "its lease has expired; the next claim recovers it"
    if job.lease is not None:
        process = scenario.workers.process_of(job.lease.worker)
        if process is not None and process.trouble:
            left = (job.lease.expires_at - scenario.app.session.clock.now()).total_seconds()
            return f"{process.name} is {process.trouble}; its lease ends in {max(left, 0):.1f} s"
        worker = scenario.workers.name_of(job.lease.worker)
        doing = job.progress["message"] if job.progress else f"attempt {job.attempt}"
        return f"{doing} on {worker}"
    if job.state == "cancelled":
        return "before it was due"
    if job.failure is not None and job.state != "completed":
        return clean(f"{job.failure.category}: {job.failure.message}")
    return f"on attempt {job.attempt}" if job.state == "completed" else ""


def print_summary(scenario: DemoScenario, trouble: str | None) -> None:
    """Print how every job ended and which checks passed."""
    click.echo()
    output.echo_table(COLUMNS, rows(scenario))
    if not output.is_terminal():
        click.echo()
    for check in scenario.checks:
        mark = click.style("✓", fg="green") if check.is_true else click.style("✗", fg="red")
        detail = click.style(f" ({check.detail})", dim=True) if check.detail else ""
        click.echo(f"{mark} {check.text}{detail}")
    if trouble:
        click.echo(f"{click.style('✗', fg='red')} {trouble}")

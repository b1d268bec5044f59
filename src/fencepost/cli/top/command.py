"""``fencepost top``: everything at a glance; live on a terminal, one look in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.lines import clean, echo
from fencepost.cli.options import DURATION, json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.cli.top.snapshot import Snapshot

INTERVAL_MIN = 0.1
RUNNING_COLUMNS = ("JOB", "TYPE", "QUEUE", "ATTEMPT", "FOR", "PROGRESS", "WORKER")
WORKER_COLUMNS = ("WORKER", "PID", "RUNNING", "QUEUES", "SEEN")


@click.command()
@option("--interval", type=DURATION, default=1.0, show_default="1s", help="How often to look.")
@option("--once", is_flag=True, help="Look once, also on a terminal.")
@url_option
@json_option
@pass_settings
def top(settings: Settings, interval: float, once: bool, as_json: bool) -> None:
    """Show queues, workers and running jobs; live on a terminal, until Ctrl-C."""
    from fencepost.cli.output import echo_json, is_terminal
    from fencepost.cli.top.snapshot import take
    from fencepost.cli.views import job_view

    with settings.opened() as app:
        if as_json:
            import msgspec

            now = take(app)
            view = {**msgspec.structs.asdict(now), "running": [job_view(j) for j in now.running]}
            echo_json(view)
        elif once or not is_terminal():
            _print_once(take(app))
        else:
            _live(app, max(interval, INTERVAL_MIN))


def _tables(now: Snapshot) -> list[tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    from fencepost.cli.commands.queue_table import lane_columns, lane_rows

    workers = [
        (w.id, w.pid, f"{w.running}/{w.concurrency}", _queues(w.queues), _ago(now, w.seen_at))
        for w in now.workers
    ]
    running = [
        (
            job.id,
            job.type,
            job.queue,
            f"{job.attempt}/{job.max_attempts}",
            _ago(now, job.started_at),
            "" if job.progress is None else f"{job.progress.fraction:.0%} {job.progress.message}",
            "" if job.lease is None else job.lease.worker,
        )
        for job in now.running
    ]
    return [
        (lane_columns("QUEUE", "NOTE"), lane_rows(now.queues)),
        (WORKER_COLUMNS, list(workers)),
        (RUNNING_COLUMNS, list(running)),
    ]


def _queues(queues: dict[str, int] | None) -> str:
    return "all" if queues is None else ", ".join(f"{n}={w}" for n, w in queues.items())


def _ago(now: Snapshot, at: Any) -> str:
    return "" if at is None else f"{max((now.at - at).total_seconds(), 0):.1f} s"


def _print_once(now: Snapshot) -> None:
    from fencepost.cli.output import plain_lines

    echo(f"{now.url} at {now.at:%Y-%m-%d %H:%M:%S} UTC")
    for columns, rows in _tables(now):
        echo()
        for line in plain_lines(columns, rows):
            echo(line)


def _live(app: App, interval: float) -> None:
    from fencepost.cli.top.snapshot import take

    before: Snapshot | None = None
    with live(screen=True) as show:
        try:
            while True:
                now = take(app)
                show(now, before)
                before = now
                app.session.clock.sleep(interval)
        except KeyboardInterrupt:
            return


@contextmanager
def live(*, screen: bool) -> Iterator[Callable[[Snapshot, Snapshot | None], None]]:
    """Give a function that shows a snapshot in the place of the one before; none in a pipe."""
    from fencepost.cli.output import console, is_terminal

    if not is_terminal():
        yield lambda *_: None
        return
    from rich.live import Live

    with Live(console=console(), screen=screen, auto_refresh=False, transient=True) as shown:
        yield lambda now, before: shown.update(_render(now, before), refresh=True)


def _render(now: Snapshot, before: Snapshot | None) -> Any:
    from rich.console import Group
    from rich.text import Text

    from fencepost.cli.output import STATE_STYLES, rich_table
    from fencepost.cli.top.snapshot import rate

    head = Text(f"fencepost top  {clean(now.url)}  {now.at:%H:%M:%S} UTC", style="bold")
    per_second = rate(before, now)
    if per_second is not None:
        head.append(f"  {per_second:,.0f} jobs/s", style="green")
    totals = Text()
    for state, count in now.counts.items():
        if count:
            totals.append(f"{state} {count:,}   ", style=STATE_STYLES.get(state, ""))
    parts: list[Any] = [head, totals]
    parts += [rich_table(columns, rows) for columns, rows in _tables(now) if rows]
    parts.append(Text("Ctrl-C ends", style="dim"))
    return Group(*parts)

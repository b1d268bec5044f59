"""``fencepost dev``: a worker that is restarted, gently, whenever the code changes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fencepost.cli.options import DURATION, log_options, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.cli.worker import child_command, longest_stop
from fencepost.core.limits import CONCURRENCY_MAX

if TYPE_CHECKING:
    from fencepost.clock import Clock
    from fencepost.worker.lifeline import Lifeline

LOOK_INTERVAL = 0.5
STEP_INTERVAL = 0.1
FILES_MAX = 20_000
SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@click.command()
@click.argument("app_name", metavar="[APP]", required=False, envvar="FENCEPOST_APP")
@option(
    "--concurrency",
    type=click.IntRange(1, CONCURRENCY_MAX),
    default=4,
    show_default=True,
    help="Jobs at once.",
)
@option(
    "--grace",
    type=DURATION,
    default=2.0,
    show_default="2s",
    help="How long running jobs may finish before a restart gives them back.",
)
@url_option
@log_options
@pass_settings
def dev(settings: Settings, app_name: str | None, concurrency: int, grace: float) -> None:
    """Run a worker for APP and restart it whenever a .py file here changes.

    APP is `module:attribute` (environment: FENCEPOST_APP); an `app` in app.py need not be named.
    """
    from fencepost.clock import SystemClock
    from fencepost.worker.lifeline import Lifeline

    command = child_command(settings, app_name, concurrency=concurrency, grace=grace)
    lifeline = Lifeline()
    try:
        Reloader(command, lifeline, SystemClock(), longest_stop(grace)).run()
    finally:
        lifeline.close()


class Reloader:
    """One worker process, and the files whose change ends it."""

    def __init__(
        self, command: list[str], lifeline: Lifeline, clock: Clock, patience: float
    ) -> None:
        self._command = command
        self._lifeline = lifeline
        self._clock = clock
        self._patience = patience
        self._child: subprocess.Popen[bytes] | None = None
        self._seen: dict[str, int] = {}
        self._look_at = 0.0
        self._is_stopping = False

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        self._seen = dict(modified_times("."))
        click.echo(f"watching {len(self._seen)} files; Ctrl-C ends", err=True)
        self._start()
        while not self._is_stopping:
            self.step()
            self._clock.sleep(STEP_INTERVAL)
        self._end()

    def stop(self) -> None:
        self._is_stopping = True

    def step(self) -> None:
        """Look at the files when it is time, and restart the worker if one has changed."""
        if self._child is not None and self._child.poll() is not None:
            click.echo("the worker has ended; it starts again when a file changes", err=True)
            self._child = None
        if self._clock.monotonic() < self._look_at:
            return
        self._look_at = self._clock.monotonic() + LOOK_INTERVAL
        now = dict(modified_times("."))
        names = sorted(now.keys() | self._seen.keys())
        changed = [name for name in names if now.get(name) != self._seen.get(name)]
        self._seen = now
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            click.echo(f"{os.path.relpath(changed[0])}{more} changed; restarting", err=True)
            self._end()
            self._start()

    def _start(self) -> None:
        self._child = self._lifeline.spawn(self._command)

    def _end(self) -> None:
        """Let the worker finish or give back what it runs; kill it if it hangs."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(self._patience)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None


def modified_times(folder: str) -> Iterator[tuple[str, int]]:
    """Yield every Python file under *folder* that is a user's own, and when it was changed."""
    count = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED
            and not name.startswith(".")
            and not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
        ]
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(parent, name)
                try:
                    yield path, os.stat(path).st_mtime_ns
                except OSError:
                    continue  # gone meanwhile
                count += 1
                if count >= FILES_MAX:
                    return

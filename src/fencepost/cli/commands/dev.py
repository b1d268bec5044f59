"""``fencepost dev``: a worker and the HTTP API, restarted, gently, whenever the code changes.

We watch, and hold the socket that the API listens on: whoever connects during a restart waits for
the next process in the socket's backlog, and is not refused.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fencepost.cli.commands.server import PORT_DEFAULT, PORT_MAX
from fencepost.cli.lines import echo
from fencepost.cli.options import DURATION, log_options, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.cli.worker.command import child_command, longest_stop
from fencepost.core.bounds import CONCURRENCY_MAX
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from fencepost.clock import Clock
    from fencepost.worker.process.lifeline import Lifeline

HOST = "127.0.0.1"
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
@option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=PORT_DEFAULT,
    show_default=True,
    help="Of the HTTP API on 127.0.0.1; a free one if it is taken.",
)
@option("--no-server", is_flag=True, help="Run the worker alone.")
@url_option
@log_options
@pass_settings
def dev(
    settings: Settings,
    app_name: str | None,
    concurrency: int,
    grace: float,
    port: int,
    no_server: bool,
) -> None:
    """Run a worker and the HTTP API for APP, and restart both whenever a .py file here changes.

    APP is `module:attribute` (environment: FENCEPOST_APP); an `app` in app.py need not be named.
    """
    from fencepost.clock import SystemClock
    from fencepost.worker.process.lifeline import Lifeline

    command = child_command(settings, app_name, concurrency=concurrency, grace=grace)
    lifeline = Lifeline()
    listening = None if no_server else _listen(port)
    try:
        Reloader(command, lifeline, SystemClock(), longest_stop(grace), listening).run()
    finally:
        lifeline.close()
        if listening is not None:
            listening.close()


def _listen(port: int) -> socket.socket:
    """Return a socket at *port* of this machine, or at any that is free; say where."""
    from fencepost.http.server.socket import listen, url_of

    try:
        listening = listen(HOST, port)
    except ConfigurationError:
        listening = listen(HOST, 0)
        echo(f"port {port} is taken", err=True)
    url = url_of(listening)
    echo(f"the HTTP API is at {url}, its routes at {url}/openapi.json", err=True)
    return listening


class Reloader:
    """One worker process, and the files whose change ends it."""

    def __init__(
        self,
        command: list[str],
        lifeline: Lifeline,
        clock: Clock,
        patience: float,
        listening: socket.socket | None = None,
    ) -> None:
        self._fds = [] if listening is None else [listening.fileno()]
        self._command = [*command, *(f"--http-fd={fd}" for fd in self._fds)]
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
        echo(f"watching {len(self._seen)} files; Ctrl-C ends", err=True)
        self._start()
        while not self._is_stopping:
            self.step()
            self._clock.sleep(STEP_INTERVAL)
        self._end()

    def stop(self) -> None:
        self._is_stopping = True

    def step(self) -> None:
        """Look at the files when it is time, and restart the worker if one has changed."""
        from fencepost.worker.process.supervisor import REPLACE_CODE

        if self._child is not None and self._child.poll() == REPLACE_CODE:
            echo("a thread of the worker did not stop; restarting", err=True)
            self._start()
        elif self._child is not None and self._child.poll() is not None:
            echo("the worker has ended; it starts again when a file changes", err=True)
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
            echo(f"{os.path.relpath(changed[0])}{more} changed; restarting", err=True)
            self._end()
            self._start()

    def _start(self) -> None:
        self._child = self._lifeline.spawn(self._command, fds=self._fds)

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

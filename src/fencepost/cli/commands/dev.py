"""``fencepost dev``: a worker and the HTTP API, restarted gracefully whenever the code changes.

The parent process watches the files and holds the listening socket of the API: a client that
connects during a restart waits in the socket's backlog for the next process and is not refused.
Where a child can inherit no socket, as on Windows, it listens itself, on the port that was found.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fencepost.cli.commands.worker import child_command, end, longest_stop
from fencepost.cli.options import (
    LOOPBACK,
    Settings,
    app_argument,
    concurrency_option,
    option,
    port_option,
    service_options,
    wait_option,
)
from fencepost.cli.output import echo
from fencepost.errors import ConfigurationError
from fencepost.platform.signals import STOPPING
from fencepost.platform.system import current

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.clock import Clock
    from fencepost.http.server.server import Server
    from fencepost.worker import Worker
    from fencepost.worker.supervisor import Lifeline

CHECK_INTERVAL = 0.5
STEP_INTERVAL = 0.1
FILES_MAX = 20_000
SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@click.command()
@app_argument
@concurrency_option(4, "How many jobs run at once.")
@wait_option(
    "--grace", 2.0, "How long running jobs may take to finish before a restart releases them."
)
@port_option("The port of the HTTP API on 127.0.0.1; if it is taken, a free one.")
@option("--no-server", is_flag=True, help="Run the worker alone.")
@option("--no-dashboard", is_flag=True, help="Serve the API without the dashboard.")
@service_options
def dev(
    settings: Settings,
    app_name: str | None,
    concurrency: int,
    grace: float,
    port: int,
    no_server: bool,
    no_dashboard: bool,
) -> None:
    """Run a worker and the HTTP API for APP, and restart both whenever a .py file here changes.

    APP is `module:attribute` (environment: FENCEPOST_APP); by default, `app` in app.py.
    """
    from fencepost.clock import SystemClock
    from fencepost.worker.supervisor import Lifeline

    command = child_command(
        settings, app_name, concurrency=concurrency, grace=grace, no_dashboard=no_dashboard
    )
    lifeline = Lifeline()
    listening = None if no_server else _listen(port, has_dashboard=not no_dashboard)
    try:
        Reloader(command, lifeline, SystemClock(), longest_stop(grace), listening).run()
    finally:
        lifeline.close()
        if listening is not None:
            listening.close()


def _listen(port: int, *, has_dashboard: bool) -> socket.socket:
    """Listen on *port* of this machine, or on a free port if it is taken; print where."""
    from fencepost.http.server.server import listen, url_of

    try:
        listening = listen(LOOPBACK, port)
    except ConfigurationError:
        listening = listen(LOOPBACK, 0)
        echo(f"port {port} is taken", err=True)
    url = url_of(listening)
    echo(f"the HTTP API is at {url}, its routes at {url}/openapi.json", err=True)
    if has_dashboard:
        echo(f"the dashboard is at {url}/", err=True)
    return listening


class Reloader:
    """Runs one worker process and restarts it when a file changes."""

    def __init__(
        self,
        command: list[str],
        lifeline: Lifeline,
        clock: Clock,
        patience: float,
        listening: socket.socket | None = None,
    ) -> None:
        self._fds: list[int] = []
        self._command = [*command, "--dev"]
        if listening is not None and current().has_shared_descriptors:
            self._fds = [listening.fileno()]
            self._command.append(f"--http-fd={listening.fileno()}")
        elif listening is not None:
            self._command.append(f"--http-port={listening.getsockname()[1]}")
            listening.close()
        self._lifeline = lifeline
        self._clock = clock
        self._patience = patience
        self._child: subprocess.Popen[bytes] | None = None
        self._seen: dict[str, int] = {}
        self._check_at = 0.0
        self._is_stopping = False

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C."""
        for number in STOPPING:
            signal.signal(number, lambda *_: self.stop())
        self._seen = dict(modified_times("."))
        echo(f"watching {len(self._seen)} files; Ctrl-C exits", err=True)
        self._start()
        while not self._is_stopping:
            self.step()
            self._clock.sleep(STEP_INTERVAL)
        self._end()

    def stop(self) -> None:
        self._is_stopping = True

    def step(self) -> None:
        """Check the files when it is time, and restart the worker if one has changed."""
        from fencepost.worker.retirement import REPLACE_CODE

        if self._child is not None and self._child.poll() == REPLACE_CODE:
            echo("a thread of the worker did not stop; restarting", err=True)
            self._start()
        elif self._child is not None and self._child.poll() is not None:
            echo("the worker exited; it starts again when a file changes", err=True)
            self._child = None
        if self._clock.monotonic() < self._check_at:
            return
        self._check_at = self._clock.monotonic() + CHECK_INTERVAL
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
        if self._child is not None:
            end(self._child, self._patience)
        self._child = None


def modified_times(folder: str) -> Iterator[tuple[str, int]]:
    """Yield the user's Python files under *folder*, each with the time of its last change."""
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
                    continue  # deleted meanwhile
                count += 1
                if count >= FILES_MAX:
                    return


def work_and_serve(
    worker: Worker, app: App, listening: socket.socket, *, grace: float, has_dashboard: bool
) -> None:
    """Run a worker and the API on one event loop."""
    from fencepost.http.server.server import Server, ServerOptions

    # The worker does maintenance, and the socket of `fencepost dev` is on loopback.
    options = ServerOptions(
        grace=grace, has_maintenance=False, is_local=True, has_dashboard=has_dashboard
    )
    asyncio.run(_both(worker, Server(app, listening, options)))


async def _both(worker: Worker, server: Server) -> None:
    serving = asyncio.create_task(server.run_async())
    serving.add_done_callback(lambda _: worker.stop())
    try:
        await worker.run_async()
    finally:
        # Last, so that requests are served for as long as jobs finish.
        server.stop()
        await serving

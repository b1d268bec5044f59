"""``fencepost worker``: run jobs, in one process or in several under a supervisor."""

from __future__ import annotations

import logging
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fencepost.cli.announcement import announce, warn_of_new_file, warn_of_queues
from fencepost.cli.apps import find_app
from fencepost.cli.options import (
    DURATION,
    LOOPBACK,
    PORT_MAX,
    ParsedType,
    Settings,
    app_argument,
    concurrency_option,
    option,
    service_options,
    wait_option,
)
from fencepost.core.bounds import (
    CONCURRENCY_DEFAULT,
    GRACE_DEFAULT,
    INTERRUPT_GRACE,
    MAX_JOBS_MAX,
    PROCESSES_MAX,
    THREADS_FAREWELL,
)
from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.worker.worker import Worker

PORT_DIGITS_MAX = 5
WEIGHT_DIGITS_MAX = 3


class ListenAddress(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _parse_address(value: Any, _: str) -> ListenAddress:
    if isinstance(value, ListenAddress):
        return value
    host, _, port = str(value).rpartition(":")
    is_number = port.isascii() and port.isdecimal() and len(port) <= PORT_DIGITS_MAX
    if not is_number or int(port) > PORT_MAX:
        raise ConfigurationError(f"{shown(value)} is not of the form PORT or HOST:PORT")
    return ListenAddress(host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port))


ADDRESS = ParsedType("[host:]port", _parse_address)
"""``HOST:PORT``, ``[HOST]:PORT``, or a port on loopback."""


@click.command()
@app_argument
@option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    help="Serve this queue (repeatable); by default, all queues.",
)
@concurrency_option(CONCURRENCY_DEFAULT, "How many jobs run at once in each process.")
@option(
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=1,
    help="Number of processes; one that dies is replaced.",
)
@option(
    "--lease-ttl",
    type=DURATION,
    show_default="30s",
    help="How long a lease lasts without a heartbeat.",
)
@wait_option("--grace", GRACE_DEFAULT, "How long running jobs may take to finish after SIGTERM.")
@option(
    "--max-jobs",
    type=click.IntRange(1, MAX_JOBS_MAX),
    metavar="N",
    help="Replace a process after this many jobs, once they have ended.",
)
@option(
    "--max-rss",
    metavar="SIZE",
    help="Replace a process that uses this much memory, such as 512MB, once its jobs have ended.",
)
@option(
    "--metrics",
    type=ADDRESS,
    metavar="[HOST:]PORT",
    help="Serve /metrics, /health/live and /health/ready there; without a host, on loopback. With "
    "--processes, each process has the next port.",
)
@option("--burst", is_flag=True, help="Exit when no job is claimable.")
@click.option("--lifeline", type=int, hidden=True, help="A pipe that closes when the parent exits.")
@click.option(
    "--http-fd", type=int, hidden=True, help="A socket on which to serve the API as well."
)
@click.option("--http-port", type=int, hidden=True, help="The same, on a port of this machine.")
@click.option("--no-dashboard", is_flag=True, hidden=True, help="With --http-fd: the API alone.")
@click.option("--dev", "is_dev", is_flag=True, hidden=True, help="The child of `fencepost dev`.")
@service_options
def worker(
    settings: Settings,
    /,
    app_name: str | None,
    processes: int,
    metrics: ListenAddress | None,
    lifeline: int | None,
    http_fd: int | None,
    http_port: int | None,
    is_dev: bool,
    **options: Any,
) -> None:
    """Run the jobs of APP until stopped.

    APP is `module:attribute` (environment: FENCEPOST_APP); by default, `app` in app.py. SIGTERM or
    Ctrl-C lets running jobs finish within --grace and releases the rest, without counting an
    attempt; a second one stops at once.
    """
    check_ports(metrics, processes)
    app = find_app(app_name, settings)
    settings.configure_logging()  # the app may have set up logging itself
    _check_app(app, processes, options)
    weights = parse_queues(options["queues"])
    is_first = lifeline is None or is_dev
    if is_first:
        warn_of_new_file(app)
        warn_of_queues(app, weights or ())
    names = ("concurrency", "lease_ttl", "grace", "max_jobs", "max_rss")
    limits = {name: options[name] for name in names}
    # Before several are started: invalid options are reported once, and not by every child.
    made = app.worker(weights, **limits)
    if is_first:
        name = made.id if processes == 1 else f"supervisor of {processes} processes"
        slots = f"{options['concurrency']} jobs at once"
        serves = f"queues: {', '.join(weights or ['all'])}; {slots}{' each' * (processes > 1)}"
        announce(settings, app, name, serves, is_patient=not options["burst"])
    if processes > 1 or _needs_supervisor(app, lifeline):
        _supervise(settings, app, app_name, processes, metrics, options)
        return
    _run(made, app, metrics, lifeline, _socket(http_fd, http_port), options)


def _needs_supervisor(app: App, lifeline: int | None) -> bool:
    """Return whether even one process needs a parent: it cannot start itself again."""
    from fencepost.platform.system import current

    is_kept = app.url.startswith("memory:")  # a memory store would be lost with the process
    return lifeline is None and not is_kept and not current().has_exec


def _run(
    made: Worker,
    app: App,
    metrics: ListenAddress | None,
    lifeline: int | None,
    listening: socket.socket | None,
    options: dict[str, Any],
) -> None:
    """Run the worker in this process until it is stopped; replace the process if it is retired."""
    if lifeline is not None:
        from fencepost.worker.supervisor import watch_lifeline

        # Stop when the parent exits, so that no unsupervised worker keeps running.
        patience = longest_stop(options["grace"])
        watch_lifeline(lifeline, stop=made.stop, clock=app.session.clock, patience=patience)
    from fencepost.worker.retirement import Replacement

    replacement = Replacement(app.session.clock, is_supervised=lifeline is not None)
    # A memory store would be lost with the process.
    made.is_replaceable = not app.url.startswith("memory:")
    made.on_retired = replacement.watch
    with monitored(app, metrics), surviving_lifespan(made):
        if listening is None:
            made.run(until_idle=options["burst"])
        else:
            from fencepost.cli.commands.dev import work_and_serve

            has_dashboard = not options["no_dashboard"]
            grace = options["grace"]
            work_and_serve(made, app, listening, grace=grace, has_dashboard=has_dashboard)
    app.close()
    if made.is_retiring:
        replacement.make()


def _socket(fd: int | None, port: int | None) -> socket.socket | None:
    """Return the socket that the parent left open or, where none can be, one on its port."""
    if fd is None and port is None:
        return None
    from fencepost.http.server.server import inherited, listen

    if fd is not None:
        return inherited(fd)
    assert port is not None
    return listen(LOOPBACK, port)


@contextmanager
def surviving_lifespan(made: Worker) -> Iterator[None]:
    """Log an exception that ends a process which is to be replaced; it is replaced all the same."""
    try:
        yield
    except Exception as error:
        if not made.is_retiring:
            raise
        from fencepost.observe import names
        from fencepost.observe.log import write

        text = f"the lifespan failed on exit: {error!r}"
        write(names.HOOK_FAILED, {"hook": "lifespan"}, level=logging.ERROR, text=text, raised=error)


def _check_app(app: App, processes: int, options: dict[str, Any]) -> None:
    """Refuse an app without tasks, and a memory store where it would be lost with a process."""
    if not app.session.tasks:
        raise ConfigurationError(f"{app!r} has no tasks; decorate a function with @app.task")
    if processes > 1 and app.url.startswith("memory:"):
        raise ConfigurationError("memory:// lives in one process; use --processes 1, or SQLite")
    asked = [name for name in ("max_jobs", "max_rss") if options[name] is not None]
    if asked and app.url.startswith("memory:"):
        raise ConfigurationError(
            f"memory:// is lost with its process; use SQLite, or leave out "
            f"--{asked[0].replace('_', '-')}"
        )


def parse_queues(texts: tuple[str, ...]) -> dict[str, int] | None:
    """Return weights by queue from ``name`` and ``name=weight``; None without any."""
    weights: dict[str, int] = {}
    for text in texts:
        name, _, weight = text.rpartition("=") if "=" in text else (text, "", "1")
        if not weight.isdecimal() or len(weight) > WEIGHT_DIGITS_MAX:
            raise click.BadParameter(
                f"{shown(text)} is not of the form NAME or NAME=WEIGHT", param_hint="--queue"
            )
        weights[name] = int(weight)
    return weights or None


def longest_stop(grace: float) -> float:
    """Return how long a worker takes to stop at most; after that, something is stuck."""
    return 2 * max(grace, 1.0) + INTERRUPT_GRACE + THREADS_FAREWELL + 5.0


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Let a worker process finish or release its jobs; kill it if it hangs."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _supervise(
    settings: Settings,
    app: App,
    app_name: str | None,
    processes: int,
    first: ListenAddress | None,
    options: dict[str, Any],
) -> None:
    from fencepost.worker.supervisor import Supervisor

    def metrics_of(place: int) -> list[str]:
        """Return the option for process number *place*: ports count up from the first."""
        return ["--metrics", str(first._replace(port=first.port + place))] if first else []

    app.close()
    Supervisor(
        child_command(settings, app_name, **options),
        processes,
        clock=app.session.clock,
        stop_patience=longest_stop(options["grace"]),
        is_burst=options["burst"],
        own_arguments=metrics_of,
    ).run()


def child_command(
    settings: Settings,
    app_name: str | None,
    *,
    queues: tuple[str, ...] = (),
    concurrency: int = CONCURRENCY_DEFAULT,
    lease_ttl: float | None = None,
    grace: float = GRACE_DEFAULT,
    burst: bool = False,
    max_jobs: int | None = None,
    max_rss: str | None = None,
    no_dashboard: bool = False,
) -> list[str]:
    """Return the command of one worker process with the same options, without its lifeline."""
    command = [*settings.child_program]
    if settings.is_url_given:
        command += ["--url", settings.url]
    if settings.log_level:
        command += ["--log-level", settings.log_level]
    if settings.log_format:
        command += ["--log-format", settings.log_format]
    command += ["worker", *([app_name] if app_name else [])]
    for queue in queues:
        command += ["--queue", queue]
    command += ["--concurrency", str(concurrency), "--processes", "1", "--grace", f"{grace:f}s"]
    if lease_ttl is not None:
        command += ["--lease-ttl", f"{lease_ttl:f}s"]
    if max_jobs is not None:
        command += ["--max-jobs", str(max_jobs)]
    if max_rss is not None:
        command += ["--max-rss", max_rss]
    flags = {"--burst": burst, "--no-dashboard": no_dashboard}
    return [*command, *(name for name, is_set in flags.items() if is_set)]


def check_ports(address: ListenAddress | None, processes: int) -> None:
    """Refuse a first port that does not leave one for every process."""
    if address is not None and processes > 1:
        if address.port == 0:
            raise click.BadParameter(
                "with several processes, name a first port other than 0", param_hint="--metrics"
            )
        if address.port + processes - 1 > PORT_MAX:
            raise click.BadParameter(
                f"{processes} processes need ports up to {address.port + processes - 1}",
                param_hint="--metrics",
            )


@contextmanager
def monitored(app: App, address: ListenAddress | None) -> Iterator[None]:
    """Serve metrics and health of this process, also while its worker drains."""
    if address is None:
        yield
        return
    from fencepost.actions.health import read_metrics
    from fencepost.observe import names
    from fencepost.observe.health import WorkerHealth
    from fencepost.observe.log import log
    from fencepost.observe.metrics import LIVE, READY, gauge
    from fencepost.worker.monitor import Monitor, pages

    session = app.session
    health = WorkerHealth(session.counters.pulse, session.clock)

    def metrics() -> bytes:
        live = gauge(LIVE, {(): health.live().is_ok})
        ready = gauge(READY, {(): health.ready().is_ok})
        return read_metrics(session, [live, ready])

    monitor = Monitor(*address, pages(health.live, health.ready, metrics))
    log(names.METRICS_SERVED, address=monitor.address)
    try:
        yield
    finally:
        monitor.close()

"""``fencepost worker``: run jobs, in one process or in several under a supervisor."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.apps import find_app
from fencepost.cli.lines import echo
from fencepost.cli.options import DURATION, log_options, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.cli.worker.monitor import ADDRESS, ListenAddress, check_ports, monitored
from fencepost.core.bounds import (
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    GRACE_DEFAULT,
    INTERRUPT_GRACE,
    PROCESSES_MAX,
    THREADS_FAREWELL,
)
from fencepost.core.display import shown, shown_url
from fencepost.errors import ConfigurationError, StoreUnavailableError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.worker import Worker

WEIGHT_DIGITS_MAX = 3


@click.command()
@click.argument("app_name", metavar="[APP]", required=False, envvar="FENCEPOST_APP")
@option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    help="Serve this queue (repeatable); all queues unless told.",
)
@option(
    "--concurrency",
    type=click.IntRange(1, CONCURRENCY_MAX),
    default=CONCURRENCY_DEFAULT,
    show_default=True,
    help="Jobs at once in each process.",
)
@option(
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=1,
    show_default=True,
    help="Supervised processes, replaced when they die.",
)
@option("--lease-ttl", type=DURATION, help="How long a job stays ours unheard of; 30s unless told.")
@option(
    "--grace",
    type=DURATION,
    default=GRACE_DEFAULT,
    show_default="30s",
    help="How long running jobs may finish after SIGTERM.",
)
@option(
    "--metrics",
    type=ADDRESS,
    metavar="[HOST:]PORT",
    help="Serve /metrics, /health/live and /health/ready here; on this machine only unless a host "
    "is named. With --processes, each has the next port.",
)
@option("--burst", is_flag=True, help="Exit when nothing is claimable.")
@click.option("--lifeline", type=int, hidden=True, help="A pipe that ends with our parent.")
@click.option("--http-fd", type=int, hidden=True, help="A socket on which to serve the API, too.")
@url_option
@log_options
@pass_settings
def worker(settings: Settings, /, app_name: str | None, processes: int, **options: Any) -> None:
    """Run the jobs of APP until stopped.

    APP is `module:attribute` (environment: FENCEPOST_APP); an `app` in app.py need not be named.
    SIGTERM or Ctrl-C lets running jobs finish within --grace and gives the rest back, uncounted;
    a second one stops at once.
    """
    settings.configure_logging()
    check_ports(options["metrics"], processes)
    app = find_app(app_name, settings)
    if not app.session.tasks:
        raise ConfigurationError(f"{app!r} has no tasks; decorate a function with @app.task")
    if processes == 1:
        _run(settings, app, **options)
    else:
        _supervise(settings, app, app_name, processes, **options)


def parse_queues(texts: tuple[str, ...]) -> dict[str, int] | None:
    """Return weights by queue from ``name`` and ``name=weight``; None when none is named."""
    weights: dict[str, int] = {}
    for text in texts:
        name, _, weight = text.rpartition("=") if "=" in text else (text, "", "1")
        if not weight.isdecimal() or len(weight) > WEIGHT_DIGITS_MAX:
            raise click.BadParameter(
                f"{shown(text)} is not of the form NAME or NAME=WEIGHT", param_hint="--queue"
            )
        weights[name] = int(weight)
    return weights or None


def _run(
    settings: Settings,
    app: App,
    *,
    queues: tuple[str, ...],
    concurrency: int,
    lease_ttl: float | None,
    grace: float,
    metrics: ListenAddress | None,
    burst: bool,
    lifeline: int | None,
    http_fd: int | None,
) -> None:
    made = app.worker(
        parse_queues(queues), concurrency=concurrency, lease_ttl=lease_ttl, grace=grace
    )
    if lifeline is None:
        announce(settings, app, made.id, is_patient=not burst)
    else:
        _end_with_parent(made, app, lifeline, grace)
    # What is in this process's memory would end with it.
    made.is_replaceable = not app.url.startswith("memory:")
    with monitored(app, metrics):
        if http_fd is None:
            made.run(until_idle=burst)
        else:
            from fencepost.cli.commands.dev_process import work_and_serve

            work_and_serve(made, app, http_fd, grace=grace)
    app.close()
    if made.is_retiring:
        _replace(is_supervised=lifeline is not None)


def _replace(*, is_supervised: bool) -> None:
    """Have another process in the place of this one, in which a thread did not stop."""
    if is_supervised:
        from fencepost.worker.process.supervisor import REPLACE_CODE

        sys.exit(REPLACE_CODE)
    # The same process by its number, so that nobody who watches it need know; no thread survives.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def announce(settings: Settings, app: App, name: str, *, is_patient: bool) -> None:
    """Say what starts, and how durable its store is; a patient worker may start without one."""
    store = shown_url(app.url)
    try:
        findings = app.store.run(app.store.overview.inspect())
    except StoreUnavailableError as error:
        if not is_patient:
            raise
        durability = f"waiting for the store: {error}"
    else:
        texts = (finding.text for finding in findings if finding.code == "durability")
        durability = next(texts, "durability unknown")
    if settings.log_json:
        from fencepost.observe import names
        from fencepost.observe.log import log

        log(names.STORE_OPENED, worker=name, store=store, durability=durability)
        return
    types = ", ".join(sorted(app.session.tasks))
    echo(f"fencepost worker {name} on {store}", err=True)
    echo(f"  {durability}", err=True)
    echo(f"  types: {types}", err=True)


def longest_stop(grace: float) -> float:
    """Return how long a worker takes to stop at the most; past that, something is stuck."""
    return 2 * max(grace, 1.0) + INTERRUPT_GRACE + THREADS_FAREWELL + 5.0


def _end_with_parent(made: Worker, app: App, lifeline: int, grace: float) -> None:
    """Stop when the parent is gone; a worker that nobody supervises would run on unseen."""
    from fencepost.worker.process.lifeline import watch

    watch(lifeline, stop=made.stop, clock=app.session.clock, patience=longest_stop(grace))


def _supervise(
    settings: Settings, app: App, app_name: str | None, processes: int, **options: Any
) -> None:
    from fencepost.worker.process.supervisor import Supervisor

    if app.url.startswith("memory:"):
        raise ConfigurationError("memory:// lives in one process; use --processes 1, or SQLite")
    app.worker(  # refuses here and once what every child would refuse
        parse_queues(options["queues"]),
        concurrency=options["concurrency"],
        lease_ttl=options["lease_ttl"],
        grace=options["grace"],
    )
    announce(settings, app, f"supervisor of {processes} processes", is_patient=not options["burst"])
    app.close()
    del options["lifeline"], options["http_fd"]
    first: ListenAddress | None = options.pop("metrics")
    Supervisor(
        child_command(settings, app_name, **options),
        processes,
        clock=app.session.clock,
        stop_patience=longest_stop(options["grace"]),
        is_burst=options["burst"],
        own_arguments=lambda place: () if first is None else _metrics_of(first, place),
    ).run()


def _metrics_of(first: ListenAddress, place: int) -> list[str]:
    """Return the option for the process at *place*: its port counts from the first one's."""
    return ["--metrics", str(first._replace(port=first.port + place))]


def child_command(
    settings: Settings,
    app_name: str | None,
    *,
    queues: tuple[str, ...] = (),
    concurrency: int = CONCURRENCY_DEFAULT,
    lease_ttl: float | None = None,
    grace: float = GRACE_DEFAULT,
    burst: bool = False,
) -> list[str]:
    """Return the command of one worker process with the same options.

    Whoever starts it adds a lifeline.
    """
    command = [sys.executable, "-m", "fencepost"]
    if settings.is_url_given:
        command += ["--url", settings.url]
    if settings.log_level:
        command += ["--log-level", settings.log_level]
    if settings.log_json:
        command += ["--log-json"]
    command += ["worker", *([app_name] if app_name else [])]
    for queue in queues:
        command += ["--queue", queue]
    command += ["--concurrency", str(concurrency), "--processes", "1", "--grace", f"{grace:g}s"]
    if lease_ttl is not None:
        command += ["--lease-ttl", f"{lease_ttl:g}s"]
    return [*command, *(["--burst"] if burst else [])]

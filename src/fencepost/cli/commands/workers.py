"""``fencepost workers``: who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fencepost.cli.options import json_option, pass_settings, url_option
from fencepost.cli.settings import Settings

if TYPE_CHECKING:
    from fencepost.store.interface.cluster import WorkerInfo

COLUMNS = ("WORKER", "HOST", "PID", "RUNNING", "QUEUES", "TYPES", "STARTED (UTC)", "SEEN (UTC)")


@click.group()
def workers() -> None:
    """Workers: who is there."""


@workers.command("ls")
@url_option
@json_option
@pass_settings
def ls(settings: Settings, as_json: bool) -> None:
    """List the workers heard from within the last minute."""
    from fencepost.cli.output import echo_json, echo_table

    with settings.opened() as app:
        found = app.workers.list()
    if as_json:
        echo_json({"workers": found})
        return
    start = settings.say("worker", "APP")
    echo_table(COLUMNS, worker_rows(found), empty=f"no live workers; next: {start}")


def worker_rows(found: list[WorkerInfo]) -> list[tuple[object, ...]]:
    """Return a row a worker."""
    from fencepost.cli.output import when

    return [
        (
            each.id,
            each.host,
            each.pid,
            f"{each.running}/{each.concurrency}",
            _queues(each),
            ", ".join(each.types),
            when(each.started_at),
            when(each.seen_at),
        )
        for each in found
    ]


def _queues(worker: WorkerInfo) -> str:
    if worker.queues is None:
        return "all"
    return ", ".join(f"{name}={weight}" for name, weight in worker.queues.items())

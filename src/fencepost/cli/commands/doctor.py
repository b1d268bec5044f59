"""``fencepost doctor``: what an operator should know, durability first."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from fencepost import __version__
from fencepost.cli.commands.webhooks import undelivered
from fencepost.cli.options import json_option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.bounds import UNREADABLE_SHOWN
from fencepost.core.display import shown_url
from fencepost.core.job.lifecycle import State

if TYPE_CHECKING:
    from fencepost.core.job.job import Job
    from fencepost.store.interface.overview import Finding, QueueView


@click.command()
@url_option
@json_option
@pass_settings
def doctor(settings: Settings, as_json: bool) -> None:
    """Look at the store and say what an operator should know.

    Exits with 1 if something is broken.
    """
    from fencepost.cli.output import echo_json, echo_table

    findings = examine(settings)
    if as_json:
        echo_json(findings)
    else:
        echo_table(("LEVEL", "CODE", "FINDING"), [(f.level, f.code, f.text) for f in findings])
    if any(finding.level == "fail" for finding in findings):
        raise SystemExit(1)


def examine(settings: Settings) -> list[Finding]:
    """Return all findings; a store that cannot be opened is one."""
    from fencepost.errors import FencepostError
    from fencepost.store.interface.overview import Finding

    store = shown_url(settings.url)
    about = f"Fencepost {__version__} on Python {platform.python_version()}, store {store}"
    findings = [Finding("ok", "version", about)]
    try:
        with settings.opened() as app:
            inspected = app.store.run(app.store.overview.inspect())
            findings += inspected
            workers, queues = app.workers.list(), app.queues.list()
            findings += _workers(len(workers))
            findings += undelivered(queues, workers)
            findings += _moved(queues)
            findings += _unreadable(app.jobs.find(state=State.RETRYING, limit=UNREADABLE_SHOWN))
    except FencepostError as error:
        findings.append(Finding("fail", error.code, str(error)))
    except OSError as error:
        findings.append(Finding("fail", "os_error", str(error)))
    return findings


def _workers(count: int) -> list[Finding]:
    from fencepost.store.interface.overview import Finding

    if count:
        return [Finding("ok", "workers", f"{count} live workers")]
    return [Finding("note", "workers", "no live worker; `fencepost worker APP` starts one")]


def _unreadable(jobs: Iterable[Job]) -> list[Finding]:
    """Warn of jobs that some worker could not read: of an old version, or of a too new one."""
    from fencepost.core.job.failure import UNREADABLE
    from fencepost.store.interface.overview import Finding

    counts = Counter(job.type for job in jobs if job.failure and job.failure.code == UNREADABLE)
    return [
        Finding(
            "warn",
            UNREADABLE,
            f"{count} jobs of type {type!r} wait for a worker that can read their payload, for an "
            f"hour at the most: finish the deployment, or roll it back",
        )
        for type, count in sorted(counts.items())
    ]


def _moved(queues: list[QueueView]) -> list[Finding]:
    """Warn of a store that is only kept: whoever works on it runs jobs twice."""
    from fencepost.cli.move.mover import mark_of
    from fencepost.store.interface.overview import Finding

    mark = mark_of(queues)
    if mark.is_moving:
        text = "a move to another store was begun; repeat `fencepost move`, or add --abandon"
    elif mark.is_moved:
        text = "its jobs were moved to another store and would run twice; it refuses new ones"
    else:
        return []
    return [Finding("warn", "moved", text)]

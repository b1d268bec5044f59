"""``fencepost jobs watch``: follow changes as they happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.lines import clean, echo
from fencepost.cli.options import (
    as_filter,
    filter_options,
    json_option,
    pass_settings,
    url_option,
)
from fencepost.cli.settings import Settings
from fencepost.core.bounds import PAGE_MAX

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.job import Job

LOOK_INTERVAL = 0.25
FOLLOWED_MAX = PAGE_MAX


@click.command("watch")
@click.argument("id", required=False)
@filter_options
@url_option
@json_option
@pass_settings
def watch(settings: Settings, /, id: str | None, as_json: bool, **conditions: Any) -> None:
    """Follow job ID until it has ended, or all jobs that meet the conditions until Ctrl-C.

    One line a change; with --json, one object a line.
    """
    wanted = as_filter(**conditions)
    if id is not None and any(wanted.values()):
        raise click.UsageError("name an id or conditions, not both")
    with settings.opened() as app:
        changes = follow(app, id) if id is not None else follow_all(app, wanted)
        try:
            for job in changes:
                _tell(job, as_json)
        except KeyboardInterrupt:
            return


def _tell(job: Job, as_json: bool) -> None:
    from fencepost.cli.output import console, echo_json_line, is_terminal, styled
    from fencepost.cli.views import job_view
    from fencepost.core.crypto.envelope import readable

    job = readable(job)
    if as_json:
        echo_json_line(job_view(job))
        return
    note = f"{job.progress.fraction:.0%} {job.progress.message}" if job.progress else ""
    if job.failure is not None and job.state != "completed":
        note = f"{job.failure.category}: {job.failure.message}"
    attempt = f"{job.attempt}/{job.max_attempts}"
    # Without runs of spaces, which would push a second line into sight on a terminal that wraps.
    note = " ".join(clean(note).split())
    head = clean(f"{job.updated_at:%H:%M:%S}  {job.id}  {job.type}  ")
    tail = f"  {attempt}  {note}".rstrip()
    if is_terminal():
        from rich.text import Text

        console().print(Text(head) + styled(job.state) + Text(tail))
    else:
        echo(f"{head}{job.state}{tail}")


def follow(app: App, id: str) -> Iterator[Job]:
    """Yield job *id* now and whenever it has changed, until it has ended."""
    handle = app.jobs.get(id)
    seen: Job | None = None
    for _ in _news(app):
        job = handle.refresh()
        if job != seen:
            yield job
            seen = job
        if job.state.is_terminal:
            return


def follow_all(app: App, wanted: dict[str, Any]) -> Iterator[Job]:
    """Yield each job that has changed since it was last looked at, for as long as asked.

    The newest are found again each time; live ones that were seen are looked up until they end.
    """
    seen: dict[str, Job] = {}
    is_first = True
    for _ in _news(app):
        page = app.jobs.find(**wanted, limit=FOLLOWED_MAX)
        current = {job.id: job for job in page}
        missing = [i for i, j in seen.items() if i not in current and not j.state.is_terminal]
        for job in app.store.run(app.store.reader.get(missing)) if missing else ():
            if job is not None:
                current[job.id] = job
        changed = [job for job in current.values() if job != seen.get(job.id)]
        if is_first:  # what has ended before we came is no change
            changed = [job for job in changed if not job.state.is_terminal]
        yield from sorted(changed, key=lambda job: job.updated_at)
        seen, is_first = current, False


def _news(app: App) -> Iterator[None]:
    """Come round now, and then whenever something may have changed."""
    from fencepost.store.interface.listener import Topic

    listener = app.store.listen(Topic.SETTLED)
    try:
        while True:
            yield
            listener.wait(LOOK_INTERVAL)
    finally:
        listener.close()

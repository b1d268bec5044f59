"""``fencepost jobs watch``: print changes as they happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli import output
from fencepost.cli.completion import complete_id
from fencepost.cli.jobs.show import job_view, progress_text
from fencepost.cli.jobs.where import as_filter, filter_options
from fencepost.cli.names import whole_id
from fencepost.cli.options import Settings, store_options
from fencepost.cli.output import clean, echo, echo_json_line
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.encryption import readable
from fencepost.core.job.history import Change
from fencepost.core.job.lifecycle import State

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.job import Job

POLL_INTERVAL = 0.25
FOLLOWED_MAX = PAGE_MAX


@click.command("watch")
@click.argument("id", shell_complete=complete_id, required=False)
@filter_options
@store_options
def watch(settings: Settings, /, id: str | None, **conditions: Any) -> None:
    """Watch job ID until it has ended, or all jobs that meet the conditions until Ctrl-C.

    Prints one line per change of state, attempt or progress, with the time (UTC) at which it
    happened by the store's clock; with --json, one object per line, with that time as `at`.
    """
    wanted = as_filter(**conditions)
    if id is not None and any(wanted.values()):
        raise click.UsageError("give either an id or conditions")
    with settings.opened() as app:
        changes = follow(app, whole_id(app, id)) if id is not None else follow_all(app, wanted)
        try:
            for job in changes:
                _echo(job, settings.as_json)
        except KeyboardInterrupt:
            return


def change_of(job: Job) -> Change:
    """Return the last change that can be seen of *job*, the same until there is another.

    A heartbeat does not count: it only extends a lease.
    """
    job = readable(job)
    lease, progress, failure = job.lease, job.progress, job.failure
    if lease is not None and lease.expired:
        return Change(job.state, lease.expires_at, f"worker {lease.worker} was lost")
    if failure is not None and job.state not in (State.RUNNING, State.COMPLETED):
        return Change(job.state, job.updated_at, f"{failure.category}: {failure.message}")
    reported_at = job.updated_at if progress is None else progress.get("at", job.updated_at)
    return Change(job.state, max(job.updated_at, reported_at), progress_text(job))


def _echo(job: Job, as_json: bool) -> None:
    change = change_of(job)
    if as_json:
        echo_json_line({**job_view(job), "at": change.at})
        return
    attempt = f"{job.attempt}/{job.max_attempts}"
    # Runs of spaces could imitate a second line on a terminal that wraps.
    note = " ".join(clean(change.reason).split())
    at = f"{change.at:%Y-%m-%d %H:%M:%S.%f}"[:-3]
    head = clean(f"{at}  {job.id}  {job.type}  ")
    tail = f"  {attempt}  {note}".rstrip()
    if output.is_terminal():
        from rich.text import Text

        output.console().print(Text(head) + output.styled(job.state) + Text(tail))
    else:
        echo(f"{head}{job.state}{tail}")


def follow(app: App, id: str) -> Iterator[Job]:
    """Yield job *id* now and after every change, until it has ended."""
    handle = app.jobs.get(id)
    seen: Change | None = None
    for _ in _changes(app):
        job = handle.refresh()
        change = change_of(job)
        if change != seen:
            yield job
            seen = change
        if job.state.is_terminal:
            return


def follow_all(app: App, wanted: dict[str, Any]) -> Iterator[Job]:
    """Yield each job that has changed since the last pass, without end.

    A pass finds the newest jobs, and reads the live ones of earlier passes until they have ended.
    """
    seen: dict[str, Change] = {}
    is_first = True
    for _ in _changes(app):
        page = app.jobs.find(**wanted, limit=FOLLOWED_MAX)
        current = {job.id: job for job in page}
        missing = [i for i, c in seen.items() if i not in current and not c.state.is_terminal]
        for job in app.store.run(app.store.reader.get(missing)) if missing else ():
            if job is not None:
                current[job.id] = job
        changes = {job.id: change_of(job) for job in current.values()}
        changed = [job for job in current.values() if changes[job.id] != seen.get(job.id)]
        if is_first:  # jobs that ended before the first pass did not change
            changed = [job for job in changed if not job.state.is_terminal]
        yield from sorted(changed, key=lambda job: change_of(job).at)
        seen, is_first = changes, False


def _changes(app: App) -> Iterator[None]:
    """Yield now, and then whenever something may have changed."""
    from fencepost.store.interface.store import Topic

    listener = app.store.listen(Topic.SETTLED)
    try:
        while True:
            yield
            listener.wait(POLL_INTERVAL)
    finally:
        listener.close()

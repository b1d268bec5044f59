"""``fencepost jobs``: list, cancel, retry and edit jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import click

from fencepost.cli.commands.submit import parse_payload
from fencepost.cli.completion import complete_id
from fencepost.cli.jobs.show import hint_after_failure, job_view, progress_cell, show
from fencepost.cli.jobs.watch import watch
from fencepost.cli.jobs.where import (
    NamedCondition,
    as_filter,
    collected,
    filter_options,
    look_options,
    of_option,
    scan_options,
    search,
)
from fencepost.cli.names import unused_names, whole_id
from fencepost.cli.options import (
    DURATION,
    TAG,
    Settings,
    option,
    page_options,
    priority_option,
    store_options,
)
from fencepost.cli.output import (
    Cell,
    Columns,
    echo,
    echo_json,
    echo_list,
    echo_reply,
    moment,
    short_id,
)
from fencepost.clock import SystemClock
from fencepost.core.display import amount
from fencepost.core.encryption import readable
from fencepost.core.job.lifecycle import ManyEdits, State
from fencepost.core.job.policy import Priority
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.job import Job


@click.group()
def jobs() -> None:
    """Jobs: find, show, cancel, retry, edit, watch."""


jobs.add_command(show)
jobs.add_command(watch)

WAITS_FOR_TIME = (State.DELAYED, State.RETRYING)
COLUMNS: Columns[Job] = {
    "ID": lambda job: short_id(job.id),
    "TYPE": lambda job: job.type,
    "QUEUE": lambda job: job.queue,
    "STATE": lambda job: job.state,
    "ATTEMPT": lambda job: f"{job.attempt}/{job.max_attempts}",
    "CREATED (UTC)": lambda job: moment(job.created_at),
    "DUE (UTC)": lambda job: moment(job.run_at if job.state in WAITS_FOR_TIME else None),
    "PRIORITY": lambda job: _priority(job),
    "NOTE": lambda job: _note(readable(job)),
}


@jobs.command("ls")
@filter_options
@look_options
@scan_options
@page_options
@store_options
def ls(
    settings: Settings,
    /,
    scan: int,
    order: str,
    limit: int,
    after: str | None,
    **conditions: Any,
) -> None:
    """List jobs, newest first."""
    wanted = as_filter(**conditions)
    with settings.opened() as app:
        page = search(app, wanted, limit=limit, after=after, bound=scan, order=order)
        names = {kind: conditions[kind] for kind in ("queue", "type")}
        unused = [] if page.jobs or settings.as_json else unused_names(app, **names)
    view = {"jobs": [job_view(job) for job in page.jobs], "next": page.next, **page.facts}
    more = settings.next_page(page.next)
    echo_list(settings, view, COLUMNS, page.jobs, empty="no such jobs", more=more)
    for note in [*page.notes, *unused] if not settings.as_json else ():
        echo(note, err=True)


def _priority(job: Job) -> Cell:
    """Return a priority; a terminal shows only what is not normal."""
    name = job.priority.name.lower()
    return Cell(name, "" if job.priority is Priority.NORMAL else name)


def _note(job: Job) -> str | Cell:
    """Return what explains the state of a job: its failure or its progress."""
    if job.state is State.COMPLETED:
        return ""
    if job.failure is not None:
        return f"{job.failure.category}: {job.failure.message}"[:120]
    return progress_cell(job)


@jobs.command("why")
@click.argument("id", shell_complete=complete_id)
@store_options
def why(settings: Settings, id: str) -> None:
    """Explain why job ID is in its state."""
    with settings.opened() as app:
        job = app.jobs.get(whole_id(app, id))
        reasons = job.why()
    if settings.as_json:
        echo_json(reasons)
        return
    for reason in reasons:
        echo(f"{reason.text} ({reason.code})")
    hint_after_failure(settings, job.id, reasons)


@jobs.command("run")
@click.argument("id", shell_complete=complete_id)
@option("--local", is_flag=True, help="Here, in this process; required.")
@option("--pdb", is_flag=True, help="Start the debugger where the handler raises.")
@store_options
def run(settings: Settings, id: str, local: bool, pdb: bool) -> None:
    """Run the handler of job ID here, with its payload, and write nothing to the store.

    Its side effects are real: mails are sent, files are written. Exits with 1 if it raises.
    A `breakpoint()` in it works.
    """
    if not local:
        raise click.UsageError(
            "add --local to run the handler in this process, without a trace in the store; to have "
            "a worker run the job again, use `fencepost jobs retry` or `fencepost dlq replay`"
        )
    from fencepost.cli.jobs.local import run_local

    run_local(settings, id, starts_debugger=pdb)


@jobs.command("cancel")
@click.argument("ids", shell_complete=complete_id, metavar="[ID]...", nargs=-1)
@filter_options
@look_options
@option("--yes", is_flag=True, help="Cancel by conditions without asking.")
@store_options
def cancel(settings: Settings, /, ids: tuple[str, ...], yes: bool, **conditions: Any) -> None:
    """Cancel jobs by ID, or every live job that meets the conditions."""
    wanted = as_filter(**conditions)
    if bool(ids) == any(wanted.values()):
        raise click.UsageError("give either ids, or conditions such as --type")
    with settings.opened() as app:
        if ids:
            each_job(settings, app, ids, "cancelled", lambda id: app.jobs.cancel(id))
            return
        if not yes:
            click.confirm("cancel every live job that meets these conditions?", abort=True)
        is_flow = [name for name, value in wanted.items() if value] == ["flow"]
        count = app.flows.get(wanted["flow"]).cancel() if is_flow else app.jobs.cancel(**wanted)
    echo_reply(settings, {"count": count}, f"cancelled {amount(count, 'job')}")


@jobs.command("retry")
@click.argument("ids", shell_complete=complete_id, metavar="[ID]...", nargs=-1)
@option("--flow", help="Instead of ids: the failed and cancelled jobs of this flow, in order.")
@option("--keep-attempts", is_flag=True, help="Keep counting from the attempts made, for one more.")
@option("--delay", type=DURATION, default=0.0, help="Run no earlier than this long from now.")
@priority_option
@store_options
def retry(
    settings: Settings, ids: tuple[str, ...], flow: str | None, keep_attempts: bool, **options: Any
) -> None:
    """Run failed, dead or cancelled jobs again under the same id, and waiting ones now."""
    if bool(ids) == (flow is not None):
        raise click.UsageError("give either ids, or --flow")
    if flow is not None and (keep_attempts or options["delay"] or options["priority"] is not None):
        raise click.UsageError("a flow is retried as it was submitted; leave out the other options")
    with settings.opened() as app:
        if flow is None:
            options["reset_attempts"] = not keep_attempts
            each_job(settings, app, ids, "reopened", lambda id: app.jobs.retry(id, **options))
            return
        count = app.flows.get(flow).retry()
    echo_reply(settings, {"count": count}, f"reopened {amount(count, 'job')}")


@jobs.command("edit")
@click.argument("ids", shell_complete=complete_id, metavar="[ID]...", nargs=-1)
@of_option
@option("--yes", is_flag=True, help="Change jobs by conditions without asking.")
@priority_option
@option("--tag", "tags", type=TAG, multiple=True, help="A tag (repeatable); replaces all its tags.")
@option("--delay", type=DURATION, help="Run it this long from now, instead of when it was due.")
@option("--payload", metavar="JSON", help="The new payload; `-` reads standard input.")
@option("--correlation-id", help="The new correlation id; empty for none.")
@option("--callback-url", help="Send a webhook there when it has ended; empty for none.")
@store_options
def edit(
    settings: Settings,
    /,
    ids: tuple[str, ...],
    of: tuple[NamedCondition, ...],
    yes: bool,
    tags: tuple[tuple[str, str], ...],
    delay: float | None,
    payload: str | None,
    **fields: Any,
) -> None:
    """Change waiting jobs; tags can be changed on any job.

    By conditions, with --of, only priority, tags and time can be changed. With --app, a payload
    is checked against the signature of the task, and a webhook is allowed if the app can sign it.
    """
    now = SystemClock().now()
    edits: dict[str, Any] = {
        "tags": dict(tags) or None,
        "run_at": None if delay is None else now + timedelta(seconds=delay),
        "payload": None if payload is None else parse_payload(payload, must_be_object=False),
        **fields,
    }
    if not any(value is not None for value in edits.values()):
        raise click.UsageError("name something to change, such as --priority high")
    if bool(ids) == bool(of):
        raise click.UsageError("give either ids, or conditions such as --of type:send_mail")
    with settings.opened() as app:
        if ids:
            each_job(settings, app, ids, "edited", lambda id: app.jobs.edit(id, **edits))
        else:
            _edit_all(settings, app, collected(of), edits, is_sure=yes)


def _edit_all(
    settings: Settings, app: App, wanted: dict[str, Any], edits: dict[str, Any], *, is_sure: bool
) -> None:
    """Change every job that meets conditions, and print how many."""
    given = {name: value for name, value in edits.items() if value is not None}
    single = sorted(given.keys() - ManyEdits.__annotations__.keys())
    if single:
        raise click.UsageError(f"give ids to change {', '.join(single)}")
    if not is_sure:
        click.confirm("change every job that meets these conditions?", abort=True)
    found = app.jobs.edit_all(cast("ManyEdits", given), **wanted)
    refused = "".join(f", {count} refused: {code}" for code, count in found.refused.items())
    view = {"count": found.count, "refused": found.refused}
    echo_reply(settings, view, f"edited {amount(found.count, 'job')}{refused}")


def each_job(
    settings: Settings, app: App, ids: tuple[str, ...], done: str, act: Callable[[str], object]
) -> None:
    """Act on each job and print the result; exit with 1 if any was refused."""
    from fencepost.app import JobHandle
    from fencepost.cli.errors import refusal

    answers: list[dict[str, Any]] = []
    refused = []
    for id in ids:
        try:
            id = whole_id(app, id)
            made = act(id)
            answers.append({"id": id, "done": True})
            line = f"{done} {id}"
            if isinstance(made, JobHandle) and made.id != id:
                answers[-1]["new_id"] = made.id
                line += f" as {made.id}"
            if not settings.as_json:
                echo(line)
        except FencepostError as error:
            answers.append({"id": id, "done": False, "code": error.code, "error": str(error)})
            refused.append(refusal(error, settings))
    if settings.as_json:
        echo_json(answers)
    for each in refused:
        each.show()
    if refused:
        raise SystemExit(1)

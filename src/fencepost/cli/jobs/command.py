"""``fencepost jobs``: find jobs and steer them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from fencepost.cli.apps import find_app
from fencepost.cli.commands.submit import parse_payload
from fencepost.cli.jobs.show import show
from fencepost.cli.jobs.watch import watch
from fencepost.cli.lines import echo
from fencepost.cli.options import (
    DURATION,
    TAG,
    app_option,
    as_filter,
    filter_options,
    json_option,
    option,
    parse_priority_text,
    pass_settings,
    url_option,
)
from fencepost.cli.settings import Settings
from fencepost.clock import SystemClock
from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX
from fencepost.errors import FencepostError


@click.group()
def jobs() -> None:
    """Find jobs, look at them, steer them."""


jobs.add_command(show)
jobs.add_command(watch)

COLUMNS = ("ID", "TYPE", "QUEUE", "STATE", "ATTEMPT", "PRIORITY", "CREATED (UTC)", "NOTE")


@jobs.command("ls")
@filter_options
@option(
    "--limit",
    type=click.IntRange(1, PAGE_MAX),
    default=PAGE_DEFAULT,
    show_default=True,
    help="At the most so many.",
)
@option("--after", help="The cursor at the end of the page before.")
@url_option
@json_option
@pass_settings
def ls(
    settings: Settings, /, limit: int, after: str | None, as_json: bool, **conditions: Any
) -> None:
    """List jobs, the newest first."""
    from fencepost.cli.output import echo_json, echo_table, when
    from fencepost.cli.views import job_view
    from fencepost.core.crypto.envelope import readable

    with settings.opened() as app:
        page = app.jobs.find(**as_filter(**conditions), limit=limit, after=after)
    if as_json:
        echo_json({"jobs": [job_view(job) for job in page], "next": page.next})
        return
    rows = [
        (
            job.id,
            job.type,
            job.queue,
            job.state,
            f"{job.attempt}/{job.max_attempts}",
            job.priority.name.lower(),
            when(job.created_at),
            _note(readable(job)),
        )
        for job in page
    ]
    echo_table(COLUMNS, rows, empty="no such jobs")
    if page.next:
        echo(f"more: {settings.say('jobs', 'ls', '--after', page.next)}", err=True)


def _note(job: Any) -> str:
    """Return the one thing about a job that explains its state."""
    if job.failure is not None:
        return f"{job.failure.category}: {job.failure.message}"[:120]
    if job.progress is not None:
        return f"{job.progress.fraction:.0%} {job.progress.message}".strip()
    return ""


@jobs.command("why")
@click.argument("id")
@url_option
@json_option
@pass_settings
def why(settings: Settings, id: str, as_json: bool) -> None:
    """Say in words why job ID is where it is."""
    from fencepost.cli.output import echo_json

    with settings.opened() as app:
        reasons = app.jobs.why(id)
    if as_json:
        echo_json(reasons)
        return
    for reason in reasons:
        echo(f"{reason.text} ({reason.code})")


@jobs.command("cancel")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options
@option("--yes", is_flag=True, help="Do not ask before cancelling by conditions.")
@url_option
@json_option
@pass_settings
def cancel(
    settings: Settings, /, ids: tuple[str, ...], yes: bool, as_json: bool, **conditions: Any
) -> None:
    """Cancel jobs by ID, or every live job that meets the conditions."""
    wanted = as_filter(**conditions)
    if bool(ids) == any(wanted.values()):
        raise click.UsageError("name ids, or conditions such as --type; not both, not neither")
    with settings.opened() as app:
        if ids:
            each_job(settings, ids, "cancelled", as_json, lambda id: app.jobs.cancel(id))
            return
        if not yes:
            click.confirm("cancel every live job that meets these conditions?", abort=True)
        is_flow = [name for name, value in wanted.items() if value] == ["flow"]
        count = app.flows.get(wanted["flow"]).cancel() if is_flow else app.jobs.cancel(**wanted)
    _tell_count(count, "cancelled", as_json)


@jobs.command("retry")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@option("--flow", help="Instead of ids: whatever failed or was cancelled of this flow, in order.")
@option("--keep-attempts", is_flag=True, help="Count on from the attempts made, for one more.")
@option("--delay", type=DURATION, default=0.0, help="Not before this long from now.")
@option("--priority", help="0 (critical) to 4 (bulk), or the name.")
@url_option
@json_option
@pass_settings
def retry(
    settings: Settings,
    ids: tuple[str, ...],
    flow: str | None,
    keep_attempts: bool,
    delay: float,
    priority: str | None,
    as_json: bool,
) -> None:
    """Run failed, dead or cancelled jobs again, under the same id; or those that wait, now."""
    if bool(ids) == (flow is not None):
        raise click.UsageError("name ids, or --flow; not both, not neither")
    if flow is not None and (keep_attempts or delay or priority is not None):
        raise click.UsageError("a flow runs again as it was submitted; leave the other options out")
    with settings.opened() as app:
        if flow is not None:
            _tell_count(app.flows.get(flow).retry(), "reopened", as_json)
            return
        each_job(
            settings,
            ids,
            "reopened",
            as_json,
            lambda id: app.jobs.retry(
                id,
                reset_attempts=not keep_attempts,
                delay=delay,
                priority=parse_priority_text(priority),
            ),
        )


@jobs.command("edit")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@app_option
@option("--priority", help="0 (critical) to 4 (bulk), or the name.")
@option("--tag", "tags", type=TAG, multiple=True, help="A tag; all that it is to have.")
@option("--delay", type=DURATION, help="Due so long from now, instead of when it was.")
@option("--payload", metavar="JSON", help="What it is to run with; `-` reads standard input.")
@option("--correlation-id", help="What it belongs to; empty for nothing.")
@option("--callback-url", help="Where a webhook goes when it has ended; empty for nowhere.")
@url_option
@json_option
@pass_settings
def edit(
    settings: Settings,
    /,
    ids: tuple[str, ...],
    app_name: str | None,
    priority: str | None,
    tags: tuple[tuple[str, str], ...],
    delay: float | None,
    payload: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Change jobs that wait; tags, of any job.

    With --app, a payload is checked against the signature of the task, and a webhook is allowed
    if the app can sign it.
    """
    now = SystemClock().now()
    edits: dict[str, Any] = {
        "priority": parse_priority_text(priority),
        "tags": dict(tags) or None,
        "run_at": None if delay is None else now + timedelta(seconds=delay),
        "payload": None if payload is None else parse_payload(payload, must_be_object=False),
        **fields,
    }
    if not any(value is not None for value in edits.values()):
        raise click.UsageError("say what to change, for example --priority high")
    with settings.opened() if app_name is None else find_app(app_name, settings) as app:
        each_job(settings, ids, "edited", as_json, lambda id: app.jobs.edit(id, **edits))


def each_job(
    settings: Settings,
    ids: tuple[str, ...],
    done: str,
    as_json: bool,
    act: Callable[[str], object],
) -> None:
    """Do something to each job and say what became of it; exit with 1 if any was refused."""
    from fencepost.cli.errors import refusal
    from fencepost.cli.output import echo_json

    answers: list[dict[str, Any]] = []
    refused = []
    for id in ids:
        try:
            act(id)
            answers.append({"id": id, "done": True})
            if not as_json:
                echo(f"{done} {id}")
        except FencepostError as error:
            answers.append({"id": id, "done": False, "code": error.code, "error": str(error)})
            refused.append(refusal(error, settings))
    if as_json:
        echo_json(answers)
    for each in refused:
        each.show()
    if refused:
        raise SystemExit(1)


def _tell_count(count: int, done: str, as_json: bool) -> None:
    from fencepost.cli.output import echo_json

    if as_json:
        echo_json({"count": count})
    else:
        echo(f"{done} {count} jobs")

"""``fencepost jobs show``: everything about one job; and how jobs are shown as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fencepost.cli import output
from fencepost.cli.completion import complete_id
from fencepost.cli.names import whole_id
from fencepost.cli.options import Settings, store_options
from fencepost.cli.output import (
    Cell,
    Columns,
    clean,
    clean_lines,
    echo,
    echo_hint,
    echo_json,
    echo_table,
    rows_of,
    when,
)
from fencepost.core.display import bar, printable_json
from fencepost.core.encryption import readable
from fencepost.core.job.history import Change, history
from fencepost.core.job.job import Attempt, Failure, Job, job_fields
from fencepost.core.values.payload import body_fields
from fencepost.core.values.times import format_duration

if TYPE_CHECKING:
    from fencepost.core.job.why import Reason

ATTEMPT_COLUMNS: Columns[Attempt] = {
    "LEASE": lambda attempt: attempt.lease_version,
    "ATTEMPT": lambda attempt: attempt.number,
    "OUTCOME": lambda attempt: attempt.outcome,
    "WORKER": lambda attempt: attempt.worker,
    "STARTED (UTC)": lambda attempt: when(attempt.started_at),
    "TOOK": lambda attempt: _took(attempt),
    "FAILURE": lambda attempt: _failure(attempt.failure),
}
CHANGE_COLUMNS: Columns[Change] = {
    "AT (UTC)": lambda change: when(change.at),
    "STATE": lambda change: change.state,
    "BECAUSE": lambda change: change.reason,
}
LONG = ("why", "payload", "checkpoint", "result", "traceback")
"""Facts that may have several lines."""


@click.command("show")
@click.argument("id", shell_complete=complete_id)
@store_options
def show(settings: Settings, id: str) -> None:
    """Show everything about job ID: payload, result, attempts, flow, and why it is in its state."""
    from fencepost.cli.jobs.graph import around, draw

    with settings.opened() as app:
        store, handle = app.store, app.jobs.get(whole_id(app, id))
        job, reasons = readable(handle.refresh()), handle.why()
        attempts = [readable(attempt) for attempt in handle.attempts()]
        (dependencies,) = store.run(store.reader.dependencies([job.id]))
        (dependents,) = store.run(store.reader.dependents([job.id]))
        is_linked = bool(dependencies or dependents or job.flow is not None)
        graph = draw(around(store, job), job) if is_linked and not settings.as_json else []
    changes = history(job, attempts)
    if settings.as_json:
        view = job_view(job, full=True)
        view["dependencies"] = [each.job_id for each in dependencies]
        view["dependents"] = dependents
        view["attempts"] = msgspec.to_builtins(attempts)
        view["history"] = msgspec.to_builtins(changes)
        view["why"] = msgspec.to_builtins(reasons)
        echo_json(view)
        return
    _print_job(job, reasons)
    if attempts:
        echo()
        echo_table(ATTEMPT_COLUMNS, rows_of(ATTEMPT_COLUMNS, attempts))
    echo()
    echo_table(CHANGE_COLUMNS, rows_of(CHANGE_COLUMNS, changes))
    for line in ["", *graph] if graph else ():
        echo(line)
    hint_after_failure(settings, job.id, reasons)


def hint_after_failure(settings: Settings, id: str, reasons: Iterable[Reason]) -> None:
    """Say how to understand a job that is given up, and how to run it again."""
    if any(reason.code in ("failed", "dead_letter") for reason in reasons):
        short = id[: output.SHORT_ID]
        here, again = settings.say("jobs", "run", short, "--local"), settings.say("jobs", "retry")
        echo_hint(f"next: {here} runs it in this terminal; {again} {short} gives it to a worker")


def _print_job(job: Job, reasons: list[Reason]) -> None:
    facts = [(name, text) for name, text in _facts(job, reasons) if text]
    if output.is_terminal():
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, text in facts:
            # A row per line: a text cannot put something into the column of names.
            for each, line in _rows(name, text):
                grid.add_row(each, output.styled(line))
        output.console().print(grid)
        return
    for name, text in facts:
        for each, line in _rows(name, text):
            echo(f"{each:<14}  {line}".rstrip())


def _rows(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a fact, the first beside its name."""
    lines = clean_lines(text) if name in LONG else [clean(text)]
    yield name, lines[0]
    yield from (("", line) for line in lines[1:])


def _facts(job: Job, reasons: list[Reason]) -> list[tuple[str, str]]:
    lease = job.lease
    return [
        ("id", job.id),
        ("type", job.type),
        ("state", job.state),
        ("why", "\n".join(clean(reason.text) for reason in reasons)),
        ("queue", job.queue),
        ("priority", f"{job.priority.value} ({job.priority.name.lower()})"),
        ("attempt", f"{job.attempt} of {job.max_attempts}"),
        ("progress", progress_text(job)),
        ("worker", "" if lease is None else lease.worker),
        ("lease", "" if lease is None else f"version {lease.version}, to {when(lease.expires_at)}"),
        ("created", when(job.created_at)),
        ("run at", when(job.run_at)),
        ("started", when(job.started_at)),
        ("completed", when(job.completed_at)),
        ("expires", when(job.expires_at)),
        ("key", job.key or ""),
        ("correlation id", job.correlation_id or ""),
        ("concurrency key", job.concurrency_key or ""),
        ("tags", ", ".join(f"{name}={value}" for name, value in job.tags.items())),
        ("callback", job.callback_url or ""),
        ("replay of", job.replay_of or ""),
        ("flow", job.flow or ""),
        ("node", job.node or ""),
        ("policy", _policy(job)),
        ("payload", _body("payload", job)),
        ("checkpoint", _body("checkpoint", job)),
        ("result", _body("result", job)),
        ("failure", _failure(job.failure)),
        ("traceback", (job.failure.traceback or "").rstrip() if job.failure else ""),
    ]


def progress_text(job: Job) -> str:
    """Return the progress that a handler has reported, if any."""
    if job.progress is None:
        return ""
    return f"{job.progress['fraction']:.0%} {job.progress['message']}".strip()


def progress_cell(job: Job) -> Cell:
    """Return the progress for a table; a terminal shows it as a bar."""
    text = progress_text(job)
    return Cell(text, "" if job.progress is None else f"{bar(job.progress['fraction'])} {text}")


def _policy(job: Job) -> str:
    policy = job.policy
    backoff = policy.backoff
    return (
        f"{policy.max_attempts} attempts, {backoff.strategy} backoff from "
        f"{format_duration(backoff.initial_delay)} to {format_duration(backoff.max_delay)}, "
        f"timeout {format_duration(policy.timeout)}, lifetime {format_duration(policy.lifetime)}"
    )


def _body(name: str, job: Job) -> str:
    ((shown_as, value),) = body_fields(name, getattr(job, f"{name}_body")).items()
    if value is None and (name != "result" or job.completed_at is None):
        return ""
    if shown_as.endswith("_encrypted"):
        return str(value)
    if shown_as != name:
        return f"{value} (binary, base64)"
    return printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _failure(failure: Failure | None) -> str:
    if failure is None:
        return ""
    code = f" [{failure.code}]" if failure.code else ""
    kind = f" ({failure.exception})" if failure.exception else ""
    return f"{failure.category}: {failure.message}{code}{kind}"


def _took(attempt: Attempt) -> str:
    if attempt.ended_at is None:
        return ""
    return f"{(attempt.ended_at - attempt.started_at).total_seconds():.3f} s"


def job_view(job: Job, *, full: bool = False) -> dict[str, Any]:
    """Return a job as JSON shows it; payload, result and policy only in *full*."""
    fields = job_fields(job, is_full=full)
    others = {"priority": job.priority.name.lower(), "waits": job.waits, "submitter": job.submitter}
    view: dict[str, Any] = msgspec.to_builtins(fields | others, str_keys=True)
    return view

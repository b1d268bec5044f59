"""``fencepost jobs show``: everything about one job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fencepost.cli.lines import clean, clean_lines, echo
from fencepost.cli.options import json_option, pass_settings, url_option
from fencepost.cli.settings import Settings

if TYPE_CHECKING:
    from fencepost.core.job.history import Change
    from fencepost.core.job.job import Attempt, Failure, Job
    from fencepost.core.job.why import Reason

LONG = ("why", "payload", "checkpoint", "result", "traceback")
"""What has several lines by right."""


@click.command("show")
@click.argument("id")
@url_option
@json_option
@pass_settings
def show(settings: Settings, id: str, as_json: bool) -> None:
    """Show everything about job ID: payload, result, attempts, flow, and why it is there."""
    import msgspec

    from fencepost.cli.jobs.graph import around, draw
    from fencepost.cli.output import echo_json
    from fencepost.cli.views import attempt_view, job_view
    from fencepost.core.crypto.envelope import readable
    from fencepost.core.job.history import history

    with settings.opened() as app:
        store, handle = app.store, app.jobs.get(id)
        job, reasons = readable(handle.refresh()), handle.why()
        attempts = [readable(attempt) for attempt in handle.attempts()]
        (dependencies,) = store.run(store.reader.dependencies([job.id]))
        (dependents,) = store.run(store.reader.dependents([job.id]))
        is_linked = bool(dependencies or dependents or job.flow is not None)
        graph = draw(around(store, job), job) if is_linked and not as_json else []
    changes = history(job, attempts)
    if as_json:
        view = job_view(job, full=True)
        view["dependencies"] = [each.job_id for each in dependencies]
        view["dependents"] = dependents
        view["attempts"] = [attempt_view(attempt) for attempt in attempts]
        view["history"] = msgspec.to_builtins(changes)
        view["why"] = msgspec.to_builtins(reasons)
        echo_json(view)
        return
    _print_job(job, reasons)
    _print_attempts(attempts)
    _print_history(changes)
    if graph:
        echo()
    for line in graph:
        echo(line)


def _print_job(job: Job, reasons: list[Reason]) -> None:
    from fencepost.cli.output import console, is_terminal, styled

    facts = [(name, text) for name, text in _facts(job, reasons) if text]
    if is_terminal():
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, text in facts:
            # A line of text is a row of the grid, so that none can stand below a name of its own.
            for each, line in _rows(name, text):
                grid.add_row(each, styled(line))
        console().print(grid)
        return
    for name, text in facts:
        for each, line in _rows(name, text):
            echo(f"{each:<14}  {line}".rstrip())


def _rows(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a fact, the first beside its name; most have only one."""
    lines = clean_lines(text) if name in LONG else [clean(text)]
    yield name, lines[0]
    yield from (("", line) for line in lines[1:])


def _facts(job: Job, reasons: list[Reason]) -> list[tuple[str, str]]:
    from fencepost.cli.output import when

    lease = job.lease
    return [
        ("id", job.id),
        ("type", job.type),
        ("state", job.state),
        ("why", "\n".join(clean(reason.text) for reason in reasons)),
        ("queue", job.queue),
        ("priority", f"{job.priority.value} ({job.priority.name.lower()})"),
        ("attempt", f"{job.attempt} of {job.max_attempts}"),
        ("progress", _progress(job)),
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


def _progress(job: Job) -> str:
    if job.progress is None:
        return ""
    return f"{job.progress.fraction:.0%} {job.progress.message}".strip()


def _policy(job: Job) -> str:
    from fencepost.core.values.duration import format_duration

    policy = job.policy
    backoff = policy.backoff
    return (
        f"{policy.max_attempts} attempts, {backoff.strategy} backoff from "
        f"{format_duration(backoff.initial_delay)} to {format_duration(backoff.max_delay)}, "
        f"timeout {format_duration(policy.timeout)}, lifetime {format_duration(policy.lifetime)}"
    )


def _body(name: str, job: Job) -> str:
    import msgspec

    from fencepost.cli.views import body_view
    from fencepost.core.display import printable_json

    ((shown_as, value),) = body_view(name, getattr(job, name)).items()
    if value is None and name != "result":
        return ""
    if value is None and job.completed_at is None:
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


def _print_attempts(attempts: list[Attempt]) -> None:
    from fencepost.cli.output import echo_table, when

    if not attempts:
        return
    echo()
    rows = [
        (
            each.lease_version,
            each.number,
            each.outcome,
            each.worker,
            when(each.started_at),
            "" if each.ended_at is None else f"{_seconds(each):.3f} s",
            _failure(each.failure),
        )
        for each in attempts
    ]
    echo_table(("LEASE", "ATTEMPT", "OUTCOME", "WORKER", "STARTED (UTC)", "TOOK", "FAILURE"), rows)


def _print_history(changes: list[Change]) -> None:
    from fencepost.cli.output import echo_table, when

    echo()
    rows = [(when(each.at), each.state, each.reason) for each in changes]
    echo_table(("AT (UTC)", "STATE", "BECAUSE"), rows)


def _seconds(attempt: Attempt) -> float:
    assert attempt.ended_at is not None
    return (attempt.ended_at - attempt.started_at).total_seconds()

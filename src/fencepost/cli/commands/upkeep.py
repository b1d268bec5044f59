"""Upkeep of a store, by hand: ``fencepost migrate``, ``recover``, ``prune`` and ``doctor``."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fencepost import __version__
from fencepost.cli.options import (
    DURATION,
    Settings,
    json_options,
    option,
    sqlite_path,
    store_options,
)
from fencepost.cli.output import (
    Columns,
    echo,
    echo_json,
    echo_list,
    echo_reply,
    echo_table,
    progress_bar,
    short_id,
)
from fencepost.core.bounds import PRUNE_BATCH, RECOVER_BATCH, UNREADABLE_SHOWN
from fencepost.core.display import shown_url
from fencepost.core.job.failure import UNREADABLE
from fencepost.core.job.lifecycle import LIVE, State
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE, DELIVERY_TYPE
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.job import Job
    from fencepost.core.overview import QueueView, WorkerInfo
    from fencepost.store.interface.overview import Finding

FINDING_COLUMNS: Columns[Finding] = {
    "LEVEL": lambda finding: finding.level,
    "CODE": lambda finding: finding.code,
    "FINDING": lambda finding: finding.text,
}


@click.command()
@option("--plan", is_flag=True, help="Only list what would be applied.")
@option("--sql", is_flag=True, help="Only print the SQL that would be run.")
@option("--roles", is_flag=True, help="Only print SQL that creates roles, for PostgreSQL.")
@store_options
def migrate(settings: Settings, plan: bool, sql: bool, roles: bool) -> None:
    """Bring the store's schema up to date."""
    if plan + sql + roles > 1:
        raise click.UsageError("give only one of --plan, --sql and --roles")
    if roles:
        click.echo(roles_script(settings), nl=False)
        return
    pending = pending_migrations(settings)
    if sql:
        for name, text in pending:
            click.echo(f"-- {name}\n{text.strip()}\n")
        return
    names = [name for name, _ in pending]
    if not plan:
        with settings.opened(must_exist=False) as app:
            names += [name for name in app.migrate() if name not in names]
    done = "would apply: " if plan else "applied: "
    line = done + ", ".join(names) if names else "the schema is up to date"
    echo_reply(settings, {"pending" if plan else "applied": names}, line)


def pending_migrations(settings: Settings) -> list[tuple[str, str]]:
    """Return the pending migrations without applying them, as opening a SQLite store would."""
    path = sqlite_path(settings.url)
    if path is None:
        with settings.opened(must_exist=False) as app:
            return app.store.pending_migrations()
    import sqlite3
    from urllib.parse import parse_qsl, urlsplit

    from fencepost.errors import StoreUnavailableError
    from fencepost.store.sqlite.engine import files, schema

    file = Path(files.resolve(str(path)))
    access = files.access(str(file), dict(parse_qsl(urlsplit(settings.url).query)).get("group"))
    files.refuse_foreign(str(file), access.group)
    access.check_names(str(file))
    if not file.exists():
        return [(name, sql) for _, name, sql in schema.migrations()]
    try:
        connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        try:
            return [(name, sql) for _, name, sql in schema.pending(connection)]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"cannot read {path}: {error}") from error


def roles_script(settings: Settings) -> str:
    """Return SQL that creates an owner, a runtime and a read-only role; needs no server."""
    if settings.url.partition(":")[0].lower() not in ("postgresql", "postgres"):
        raise click.UsageError("--roles is for a store in PostgreSQL; name one with --url")
    from fencepost.store.postgres.engine import schema

    return schema.roles()


@click.command()
@store_options
def recover(settings: Settings) -> None:
    """Take jobs back from workers whose leases expired; each counts as a failed attempt."""
    from fencepost.store.interface.queue import Moved

    moved: list[Moved] = []
    with settings.opened() as app, progress_bar("recovered", None) as advance:
        while batch := app.store.run(app.store.upkeep.recover(RECOVER_BATCH)):
            moved += batch
            advance(len(batch))
    if settings.as_json:
        echo_json(moved)
        return
    if moved:
        echo_table(("ID", "TYPE", "STATE"), [(short_id(m.job_id), m.type, m.state) for m in moved])
    echo(f"recovered {len(moved)} jobs")


@click.command()
@option(
    "--older-than",
    type=DURATION,
    help="Delete jobs that ended longer ago than this; by default 7d for completed and cancelled "
    "jobs, 90d for failed ones.",
)
@option("--state", "states", multiple=True, help="Only in this terminal state (repeatable).")
@store_options
def prune(settings: Settings, older_than: float | None, states: tuple[str, ...]) -> None:
    """Delete old terminal jobs; a dead letter is deleted with its job.

    A job whose idempotency key is still held is kept.
    """
    from fencepost.core.filter import parse_states
    from fencepost.core.job.timeouts import Retention
    from fencepost.store.interface.upkeep import PruneRequest

    wanted = parse_states(states) or tuple(Retention().by_state())
    live = [state for state in wanted if not state.is_terminal]
    if live:
        raise click.BadParameter(f"{live[0]} jobs are live; cancel them", param_hint="--state")
    keep = {s: k for s, k in Retention().by_state().items() if s in wanted}
    if older_than is not None:
        keep = dict.fromkeys(keep, older_than)
    total = 0
    position: int | None = 0
    with settings.opened() as app, progress_bar("pruned", None) as advance:
        while position is not None:
            request = PruneRequest(keep=keep, after=position, limit=PRUNE_BATCH)
            pruned = app.store.run(app.store.upkeep.prune(request))
            total += pruned.count
            advance(pruned.count)
            position = pruned.next
    echo_reply(settings, {"count": total}, f"pruned {total} jobs")


@click.command()
@store_options
def doctor(settings: Settings) -> None:
    """Check the store and report problems.

    Exits with 1 if something is broken.
    """
    findings = examine(settings)
    echo_list(settings, findings, FINDING_COLUMNS, findings, empty="")
    if any(finding.level == "fail" for finding in findings):
        raise SystemExit(1)


def examine(settings: Settings) -> list[Finding]:
    """Return all findings; that a store cannot be opened is a finding too."""
    from fencepost.store.interface.overview import Finding

    store = shown_url(settings.url)
    about = f"Fencepost {__version__} on Python {platform.python_version()}, store {store}"
    findings = [Finding("ok", "version", about)]
    try:
        with settings.opened() as app:
            inspected = app.store.run(app.store.overview.inspect())
            findings += inspected
            findings.extend(Finding(*each) for each in _problems(app))
    except FencepostError as error:
        findings.append(Finding("fail", error.code, str(error)))
    except OSError as error:
        findings.append(Finding("fail", "os_error", str(error)))
    return findings


def _problems(app: App) -> Iterator[tuple[Literal["ok", "note", "warn"], str, str]]:
    """Yield level, code and text of what is the same for every engine."""
    workers, queues = app.workers.list(), app.queues.list()
    if workers:
        yield "ok", "workers", f"live workers: {len(workers)}"
    else:
        yield "note", "workers", "no live worker; `fencepost worker APP` starts one"
    for text in _undelivered(queues, workers):
        yield "warn", "webhooks", text
    for text in _moved(queues):
        yield "warn", "moved", text
    for text in _unreadable(app.jobs.find(state=State.RETRYING, limit=UNREADABLE_SHOWN)):
        yield "warn", UNREADABLE, text
    for text in _outages(app):
        yield "note", "outage", text


def _undelivered(queues: list[QueueView], workers: list[WorkerInfo]) -> Iterator[str]:
    """Warn of webhooks that no worker delivers; with --queue, their queue has to be named."""
    counts = next((queue.counts for queue in queues if queue.name == DELIVERY_QUEUE), {})
    waiting = sum(count for state, count in counts.items() if state in LIVE)
    is_served = any(worker.serves(DELIVERY_TYPE, DELIVERY_QUEUE) for worker in workers)
    if waiting and not is_served:
        yield (
            f"{waiting} webhooks wait and no worker delivers them; start `fencepost server APP`, "
            f"or `fencepost worker APP` without --queue or with --queue {DELIVERY_QUEUE}, for an "
            f"app that has webhook secrets"
        )


def _moved(queues: list[QueueView]) -> Iterator[str]:
    """Warn of a store whose jobs were moved away: a worker on it would run them twice."""
    from fencepost.cli.commands.mover import mark_of

    mark = mark_of(queues)
    if mark.is_moving:
        yield "a move to another store is unfinished; repeat `fencepost move`, or add --abandon"
    elif mark.is_moved:
        yield "its jobs were moved and a worker here would run them twice; it refuses new ones"


def _outages(app: App) -> Iterator[str]:
    """Recommend patient retries for jobs that died of an outage within a few seconds."""
    from fencepost.core.job.failure import (
        LETTERS_LOOKED_AT,
        OUTAGE_AGE,
        OUTAGE_SPAN,
        is_brief,
        is_outage,
    )

    store, now = app.store, app.store.clock.now()
    letters = [
        letter
        for letter in app.dead_letters.list(limit=LETTERS_LOOKED_AT)
        if (now - letter.completed_at).total_seconds() <= OUTAGE_AGE and is_outage(letter.failure)
    ]
    attempts = [store.run(store.reader.attempts(letter.job_id)) for letter in letters]
    brief = [letter.type for letter, made in zip(letters, attempts, strict=True) if is_brief(made)]
    for type, count in sorted(Counter(brief).items()):
        yield (
            f"{count} jobs of type {type!r} died of an outage: all their attempts lay within "
            f"{OUTAGE_SPAN:.0f} s. Retry.patient() tries for an hour: give it to the task as "
            f"retry=, or set FENCEPOST_RETRY=patient. `fencepost dlq replay --type {type}` runs "
            f"them again"
        )


def _unreadable(jobs: Iterable[Job]) -> Iterator[str]:
    """Warn of jobs whose payload a worker could not read: its code was too old or too new."""
    counts = Counter(job.type for job in jobs if job.failure and job.failure.code == UNREADABLE)
    for type, count in sorted(counts.items()):
        yield (
            f"{count} jobs of type {type!r} wait for a worker that can read their payload, for an "
            f"hour at most: finish the deployment, or roll it back"
        )


@click.command()
@json_options
def version(settings: Settings) -> None:
    """Show the versions of Fencepost, Python and SQLite, and the platform."""
    import sqlite3

    versions = {
        "fencepost": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "platform": platform.platform(),
    }
    if settings.as_json:
        echo_json(versions)
        return
    for name, text in versions.items():
        echo(f"{name} {text}")

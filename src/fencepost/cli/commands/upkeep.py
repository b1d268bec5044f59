"""Upkeep of a store, by hand: ``fencepost migrate``, ``recover``, ``prune`` and ``doctor``."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

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
from fencepost.core.bounds import PRUNE_BATCH, RECOVER_BATCH
from fencepost.core.display import amount, shown_url
from fencepost.errors import FencepostError
from fencepost.store.url import names_postgres

if TYPE_CHECKING:
    from fencepost.core.stats.overview import Finding

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
    if not names_postgres(settings.url):
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
    echo(f"recovered {amount(len(moved), 'job')}")


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
    echo_reply(settings, {"count": total}, f"pruned {amount(total, 'job')}")


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
    from fencepost.actions.local.doctor import examine as inspect
    from fencepost.core.stats.overview import Finding

    store = shown_url(settings.url)
    about = f"Fencepost {__version__} on Python {platform.python_version()}, store {store}"
    findings = [Finding("ok", "version", about)]
    try:
        with settings.opened() as app:
            findings += app.session.run(inspect(app.session))
    except FencepostError as error:
        findings.append(Finding("fail", error.code, str(error)))
    except OSError as error:
        findings.append(Finding("fail", "os_error", str(error)))
    return findings


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

"""``fencepost migrate``: bring the schema up to date, or show what that would do."""

from __future__ import annotations

from pathlib import Path

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings, sqlite_path


@click.command()
@option("--plan", is_flag=True, help="Only name what would be applied.")
@option("--sql", is_flag=True, help="Only print the SQL that would be run.")
@option("--roles", is_flag=True, help="Only print SQL that makes roles, for PostgreSQL.")
@url_option
@json_option
@pass_settings
def migrate(settings: Settings, plan: bool, sql: bool, roles: bool, as_json: bool) -> None:
    """Bring the store's schema up to date."""
    from fencepost.cli.output import echo_json

    if plan + sql + roles > 1:
        raise click.UsageError("--plan, --sql or --roles, not two of them")
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
    if as_json:
        echo_json({"pending" if plan else "applied": names})
    elif names:
        echo(("would apply: " if plan else "applied: ") + ", ".join(names))
    else:
        echo("the schema is up to date")


def pending_migrations(settings: Settings) -> list[tuple[str, str]]:
    """Return what is to be applied, without applying it: opening a SQLite store would."""
    path = sqlite_path(settings.url)
    if path is None:
        with settings.opened(must_exist=False) as app:
            return app.store.pending_migrations()
    import sqlite3

    from fencepost.errors import StoreUnavailableError
    from fencepost.store.sqlite.engine import identity, schema

    file = Path(identity.resolve(str(path)))
    identity.refuse_foreign(str(file))
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
    """Return SQL that makes an owner, a runtime and a read-only role; it asks no server."""
    if settings.url.partition(":")[0].lower() not in ("postgresql", "postgres"):
        raise click.UsageError("--roles is for a store in PostgreSQL; name one with --url")
    from fencepost.store.postgres.engine import schema

    return schema.roles()

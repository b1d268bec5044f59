"""``fencepost audit``: who did what."""

from __future__ import annotations

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX


@click.group()
def audit() -> None:
    """The audit log: who did what."""


@audit.command("ls")
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
def ls(settings: Settings, limit: int, after: str | None, as_json: bool) -> None:
    """List what operators did, newest first."""
    from fencepost.cli.output import echo_json, echo_table, when

    with settings.opened() as app:
        page = app.audit.list(after=after, limit=limit)
    if as_json:
        echo_json(page)
        return
    rows = [
        (
            when(action.at),
            action.principal,
            action.principal_id,
            action.action,
            action.target,
            action.status,
            action.request_id,
        )
        for action in page
    ]
    columns = ("AT (UTC)", "WHO", "TOKEN", "ACTION", "TARGET", "STATUS", "REQUEST")
    echo_table(columns, rows, empty="nothing was done yet")
    if page.next:
        echo(f"more: {settings.say('audit', 'ls', '--after', page.next)}", err=True)

"""``fencepost types``: look at types, pause and resume them."""

from __future__ import annotations

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, pass_settings, url_option
from fencepost.cli.settings import Settings


@click.group()
def types() -> None:
    """Types: list, pause, resume."""


@types.command("ls")
@url_option
@json_option
@pass_settings
def ls(settings: Settings, as_json: bool) -> None:
    """List every type with its counts."""
    from fencepost.cli.commands.queue_table import lane_columns, lane_rows
    from fencepost.cli.output import echo_json, echo_table

    with settings.opened() as app:
        found = app.types.list()
    if as_json:
        echo_json({"types": found})
        return
    echo_table(lane_columns("TYPE", "NOTE"), lane_rows(found), empty="no types yet")


@types.command("pause")
@click.argument("name")
@url_option
@pass_settings
def pause(settings: Settings, name: str) -> None:
    """Hand out no more jobs of type NAME; those running go on."""
    with settings.opened() as app:
        app.types.pause(name)
    echo(f"paused type {name}; next: {settings.say('types', 'resume', name)}")


@types.command("resume")
@click.argument("name")
@url_option
@pass_settings
def resume(settings: Settings, name: str) -> None:
    """Hand out the jobs of type NAME again, in their old order."""
    with settings.opened() as app:
        app.types.resume(name)
    echo(f"resumed type {name}")

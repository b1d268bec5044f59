"""``fencepost queues``: look at queues, pause and limit them."""

from __future__ import annotations

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings


@click.group()
def queues() -> None:
    """Queues: list, pause, resume, limit."""


@queues.command("ls")
@url_option
@json_option
@pass_settings
def ls(settings: Settings, as_json: bool) -> None:
    """List every queue with its counts."""
    from fencepost.cli.commands.queue_table import lane_columns, lane_rows
    from fencepost.cli.output import echo_json, echo_table

    with settings.opened() as app:
        found = app.queues.list()
        app_limit = app.store.run(app.store.settings.app_limit())
    if as_json:
        echo_json({"queues": found, "app_max_running": app_limit})
        return
    echo_table(lane_columns("QUEUE", "NOTE"), lane_rows(found), empty="no queues yet")
    if app_limit is not None:
        echo(f"at most {app_limit} jobs run at once in all", err=True)


@queues.command("pause")
@click.argument("name")
@url_option
@pass_settings
def pause(settings: Settings, name: str) -> None:
    """Hand out no more jobs of queue NAME; those running go on."""
    with settings.opened() as app:
        app.queues.pause(name)
    echo(f"paused queue {name}; next: {settings.say('queues', 'resume', name)}")


@queues.command("resume")
@click.argument("name")
@url_option
@pass_settings
def resume(settings: Settings, name: str) -> None:
    """Hand out the jobs of queue NAME again, in their old order."""
    with settings.opened() as app:
        app.queues.resume(name)
    echo(f"resumed queue {name}")


@queues.command("limit")
@click.argument("name", required=False)
@click.argument("max_running", metavar="[N]", type=click.IntRange(1), required=False)
@option("--none", "lift", is_flag=True, help="Lift the limit.")
@option("--app", "whole", type=click.IntRange(1), help="Limit all queues together instead.")
@url_option
@pass_settings
def limit(
    settings: Settings, name: str | None, max_running: int | None, lift: bool, whole: int | None
) -> None:
    """Run at most N jobs of queue NAME at once, over all workers.

    `limit NAME --none` lifts it; `limit --app N` bounds all queues together, `limit --none` lifts
    that.
    """
    _check(name, max_running, lift, whole)
    with settings.opened() as app:
        if name is None:
            app.limit(max_running=whole)
        else:
            app.queues.limit(name, max_running=max_running)
    number = whole if name is None else max_running
    what = "all queues together" if name is None else f"queue {name}"
    echo(f"{what}: {'no limit' if number is None else f'at most {number} jobs at once'}")


def _check(name: str | None, max_running: int | None, lift: bool, whole: int | None) -> None:
    given = [max_running is not None, lift, whole is not None]
    if sum(given) != 1 or (name is not None and whole is not None):
        raise click.UsageError("write `limit NAME N`, `limit NAME --none` or `limit --app N`")

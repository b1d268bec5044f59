"""``fencepost cron``: look at crons and steer them, from the store alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.lines import clean, echo
from fencepost.cli.options import json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.bounds import CRON_NEXT_DEFAULT, CRON_NEXT_MAX, CRON_SILENCE

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.store.interface.crons import CronView

COLUMNS = (
    "CRON",
    "SCHEDULE",
    "ZONE",
    "MEANS",
    "NEXT (UTC)",
    "NEXT (ZONE)",
    "LAST (UTC)",
    "MISSED",
    "NOTE",
)
NOBODY = "nobody knows it"


@click.group()
def cron() -> None:
    """Crons: list, run, pause, resume, next times."""


@cron.command("ls")
@url_option
@json_option
@pass_settings
def ls(settings: Settings, as_json: bool) -> None:
    """List every cron: when it ticks, when it did last, and whether a worker knows it."""
    from fencepost.cli.output import echo_json, echo_table

    with settings.opened() as app:
        seen = app.store.run(app.store.crons.list())
    if as_json:
        echo_json({"now": seen.now, "crons": [view_of(each, seen.now) for each in seen.crons]})
        return
    rows = [_row(each, seen.now) for each in seen.crons]
    start = settings.say("worker", "APP")
    echo_table(COLUMNS, rows, empty=f"no crons; a worker declares those of its app: {start}")


def view_of(cron: CronView, now: datetime) -> dict[str, Any]:
    """Return a cron as JSON shows it."""
    return {
        "name": cron.name,
        "expression": cron.expression,
        "tz": cron.tz,
        "description": cron.description,
        "type": None if cron.template is None else cron.template.type,
        "queue": None if cron.template is None else cron.template.queue,
        "missed": cron.missed,
        "catch_up": cron.catch_up,
        "is_paused": cron.is_paused,
        "is_known": is_known(cron, now),
        "last_tick": cron.last_tick,
        "next_tick": cron.next_tick,
        "next_tick_local": _local(cron, cron.next_tick),
        "declared_at": cron.declared_at,
        "changed_at": cron.changed_at,
    }


def is_known(cron: CronView, now: datetime) -> bool:
    """Tell whether a running worker has lately said that its app declares a cron."""
    since = now - timedelta(seconds=CRON_SILENCE)
    return cron.declared_at is not None and cron.declared_at > since


def _row(cron: CronView, now: datetime) -> tuple[object, ...]:
    from fencepost.cli.output import when

    notes = ["paused"] if cron.is_paused else []
    if not is_known(cron, now):
        notes.append(f"{NOBODY} since {when(cron.declared_at)}")
    return (
        cron.name,
        cron.expression,
        cron.tz,
        cron.description,
        when(cron.next_tick),
        when(_local(cron, cron.next_tick)),
        when(cron.last_tick),
        cron.missed if cron.missed != "catch_up" else f"catch up {cron.catch_up}",
        ", ".join(notes),
    )


def _local(cron: CronView, tick: datetime | None) -> datetime | None:
    """Return a tick as a clock in the cron's zone shows it, if this machine knows the zone."""
    from fencepost.core.cron.schedule import parse_zone
    from fencepost.errors import InvalidCronError

    try:
        return None if tick is None else tick.astimezone(parse_zone(cron.tz)[1])
    except InvalidCronError:
        return None


@cron.command("next")
@click.argument("name")
@option(
    "--count",
    type=click.IntRange(1, CRON_NEXT_MAX),
    default=CRON_NEXT_DEFAULT,
    show_default=True,
    help="How many.",
)
@url_option
@json_option
@pass_settings
def next_(settings: Settings, name: str, count: int, as_json: bool) -> None:
    """Show the next times of cron NAME, in UTC and in its zone."""
    from fencepost.cli.output import echo_json, echo_table, when

    with settings.opened() as app:
        ticks = app.crons.next(name, count)
        found = _find(app, name)
    local = [_local(found, tick) for tick in ticks]
    if as_json:
        times = [{"at": tick, "local": here} for tick, here in zip(ticks, local, strict=True)]
        echo_json({"name": name, "tz": found.tz, "is_paused": found.is_paused, "next": times})
        return
    rows = [
        (when(tick), "" if here is None else f"{when(here)} {here:%Z}")
        for tick, here in zip(ticks, local, strict=True)
    ]
    echo_table(("UTC", clean(found.tz)), rows)
    if found.is_paused:
        echo(f"paused; next: {settings.say('cron', 'resume', name)}", err=True)


def _find(app: App, name: str) -> CronView:
    from fencepost.errors import CronNotFoundError

    for each in app.crons.list():
        if each.name == name:
            return each
    raise CronNotFoundError(name)


@cron.command("run")
@click.argument("name")
@url_option
@json_option
@pass_settings
def run(settings: Settings, name: str, as_json: bool) -> None:
    """Submit a job of cron NAME now; its schedule goes on as it was."""
    from fencepost.cli.output import echo_json, is_terminal

    with settings.opened() as app:
        job = app.crons.run(name)
    if as_json:
        echo_json({"id": job.id, "type": job.type, "state": job.state})
        return
    echo(job.id)
    if is_terminal():
        echo(f"stored; next: {settings.say('jobs', 'show', job.id)}", err=True)


@cron.command("pause")
@click.argument("name")
@url_option
@json_option
@pass_settings
def pause(settings: Settings, name: str, as_json: bool) -> None:
    """Fire no more ticks of cron NAME; jobs that it has made go on."""
    from fencepost.cli.output import echo_json

    with settings.opened() as app:
        app.crons.pause(name)
    if as_json:
        echo_json({"name": name, "is_paused": True})
    else:
        echo(f"paused cron {name}; next: {settings.say('cron', 'resume', name)}")


@cron.command("resume")
@click.argument("name")
@url_option
@json_option
@pass_settings
def resume(settings: Settings, name: str, as_json: bool) -> None:
    """Fire the ticks of cron NAME again; those that passed meanwhile are not made up for."""
    from fencepost.cli.output import echo_json, when

    with settings.opened() as app:
        app.crons.resume(name)
        tick = _find(app, name).next_tick
    if as_json:
        echo_json({"name": name, "is_paused": False, "next_tick": tick})
    else:
        echo(f"resumed cron {name}; it ticks at {when(tick)} UTC")


@cron.command("forget")
@click.argument("name")
@url_option
@json_option
@pass_settings
def forget(settings: Settings, name: str, as_json: bool) -> None:
    """Delete cron NAME from the store, if no app declares it any more."""
    from fencepost.cli.output import echo_json

    with settings.opened() as app:
        seen = app.store.run(app.store.crons.list())
        app.crons.forget(name)
    comes_back = any(each.name == name and is_known(each, seen.now) for each in seen.crons)
    if as_json:
        echo_json({"name": name, "comes_back": comes_back})
        return
    echo(f"forgot cron {name}")
    if comes_back:
        echo(
            "a running worker declares it and brings it back; to stop it: "
            f"{settings.say('cron', 'pause', name)}",
            err=True,
        )

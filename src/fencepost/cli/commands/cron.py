"""``fencepost cron``: list, run, pause and resume crons; needs the store alone, not the app."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fencepost.cli.options import Settings, decorated, option, store_options
from fencepost.cli.output import (
    Columns,
    clean,
    echo,
    echo_hint,
    echo_json,
    echo_list,
    echo_reply,
    echo_table,
    moment,
    short_id,
    when,
)
from fencepost.core.bounds import (
    CRON_NEXT_DEFAULT,
    CRON_NEXT_MAX,
    CRON_RUNS_DEFAULT,
    CRON_RUNS_MAX,
    CRON_SILENCE,
)
from fencepost.errors import CronNotFoundError, InvalidCronError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.runs import CronRun
    from fencepost.store.interface.records.crons import CronView


@click.group()
def cron() -> None:
    """Crons: list, run, pause, resume, next times."""


@cron.command("ls")
@store_options
def ls(settings: Settings) -> None:
    """List every cron: its schedule, its last and next tick, and whether a worker declares it."""
    with settings.opened() as app:
        seen = app.store.run(app.store.crons.list())
    view = {"now": seen.now, "crons": [view_of(each, seen.now) for each in seen.crons]}
    empty = f"no crons; a worker declares those of its app: {settings.say('worker', 'APP')}"
    echo_list(settings, view, _columns(seen.now), seen.crons, empty=empty)


def view_of(cron: CronView, now: datetime) -> dict[str, Any]:
    """Return a cron as JSON shows it."""
    view = {
        **msgspec.structs.asdict(cron),
        "description": cron.description,
        "type": None if cron.template is None else cron.template.type,
        "queue": None if cron.template is None else cron.template.queue,
        "is_known": is_known(cron, now),
        "next_tick_local": _local(cron, cron.next_tick),
    }
    del view["template"]
    return view


def is_known(cron: CronView, now: datetime) -> bool:
    """Return whether a running worker has declared this cron lately."""
    since = now - timedelta(seconds=CRON_SILENCE)
    return cron.declared_at is not None and cron.declared_at > since


def _columns(now: datetime) -> Columns[CronView]:
    return {
        "CRON": lambda cron: cron.name,
        "SCHEDULE": lambda cron: cron.expression,
        "ZONE": lambda cron: cron.tz,
        "MEANS": lambda cron: cron.description,
        "NEXT (UTC)": lambda cron: moment(cron.next_tick),
        "NEXT (ZONE)": lambda cron: when(_local(cron, cron.next_tick)),
        "LAST (UTC)": lambda cron: moment(cron.last_tick),
        "MISSED": lambda cron: cron.missed.replace("catch_up", f"catch up {cron.catch_up}"),
        "NOTE": lambda cron: _note(cron, now),
    }


def _note(cron: CronView, now: datetime) -> str:
    notes = ["paused"] if cron.is_paused else []
    if not is_known(cron, now):
        notes.append(f"no worker declares it since {when(cron.declared_at)}")
    return ", ".join(notes)


def _local(cron: CronView, tick: datetime | None) -> datetime | None:
    """Return a tick in the cron's time zone; None if this machine does not know the zone."""
    from fencepost.core.cron import parse_zone

    try:
        return None if tick is None else tick.astimezone(parse_zone(cron.tz)[1])
    except InvalidCronError:
        return None


def about_one(
    verb: str, *options: Callable[..., Any]
) -> Callable[[Callable[..., None]], click.Command]:
    """Add a command about one cron, by its NAME."""
    name = click.argument("name")
    return lambda function: cron.command(verb)(decorated(store_options(function), name, *options))


COUNT = option(
    "--count", type=click.IntRange(1, CRON_NEXT_MAX), default=CRON_NEXT_DEFAULT, help="How many."
)


@about_one("next", COUNT)
def next_(settings: Settings, name: str, count: int) -> None:
    """Show the next times of cron NAME, in UTC and in its time zone."""
    with settings.opened() as app:
        ticks = app.crons.next(name, count)
        found = _find(app, name)
    times = [(tick, _local(found, tick)) for tick in ticks]
    if settings.as_json:
        views = [{"at": tick, "local": local} for tick, local in times]
        echo_json({"name": name, "tz": found.tz, "is_paused": found.is_paused, "next": views})
        return
    rows = [(when(tick), local and f"{when(local)} {local:%Z}") for tick, local in times]
    echo_table(("UTC", clean(found.tz)), rows)
    if found.is_paused:
        echo(f"paused; next: {settings.say('cron', 'resume', name)}", err=True)


RUN_COLUMNS: Columns[CronRun] = {
    "JOB": lambda run: short_id(run.job_id),
    "STATE": lambda run: run.state,
    "TICK (UTC)": lambda run: moment(run.tick),
    "CREATED (UTC)": lambda run: moment(run.created_at),
    "STARTED (UTC)": lambda run: moment(run.started_at),
    "ENDED (UTC)": lambda run: moment(run.ended_at),
}
LIMIT = option(
    "--limit", type=click.IntRange(1, CRON_RUNS_MAX), default=CRON_RUNS_DEFAULT, help="How many."
)


@about_one("runs", LIMIT)
def runs(settings: Settings, name: str, limit: int) -> None:
    """List the last runs of cron NAME, the newest first."""
    with settings.opened() as app:
        found = app.crons.runs(name, limit=limit)
    echo_list(settings, {"runs": found}, RUN_COLUMNS, found, empty="no runs are kept")


def _find(app: App, name: str) -> CronView:
    for each in app.crons.list():
        if each.name == name:
            return each
    raise CronNotFoundError(name)


@about_one("run")
def run(settings: Settings, name: str) -> None:
    """Submit a job of cron NAME now; its schedule does not change."""
    with settings.opened() as app:
        job = app.crons.run(name)
    echo_reply(settings, {"id": job.id, "type": job.type, "state": job.state}, job.id)
    if not settings.as_json:
        echo_hint(f"stored; next: {settings.say('jobs', 'show', job.id)}")


@about_one("pause")
def pause(settings: Settings, name: str) -> None:
    """Stop cron NAME; jobs that it has submitted continue."""
    with settings.opened() as app:
        app.crons.pause(name)
    line = f"paused cron {name}; next: {settings.say('cron', 'resume', name)}"
    echo_reply(settings, {"name": name, "is_paused": True}, line)


@about_one("resume")
def resume(settings: Settings, name: str) -> None:
    """Resume cron NAME; ticks that passed while it was paused are not made up for."""
    with settings.opened() as app:
        app.crons.resume(name)
        tick = _find(app, name).next_tick
    line = f"resumed cron {name}; next tick at {when(tick)} UTC"
    echo_reply(settings, {"name": name, "is_paused": False, "next_tick": tick}, line)


@about_one("forget")
def forget(settings: Settings, name: str) -> None:
    """Delete cron NAME from the store, if no app declares it any more."""
    with settings.opened() as app:
        seen = app.store.run(app.store.crons.list())
        app.crons.forget(name)
    comes_back = any(each.name == name and is_known(each, seen.now) for each in seen.crons)
    echo_reply(settings, {"name": name, "comes_back": comes_back}, f"deleted cron {name}")
    if comes_back and not settings.as_json:
        echo(
            "a running worker declares it and will add it again; to stop it: "
            f"{settings.say('cron', 'pause', name)}",
            err=True,
        )

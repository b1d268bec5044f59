"""``fencepost events``: send one, and look at those that were sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.apps import find_app
from fencepost.cli.commands.submit import parse_payload
from fencepost.cli.lines import echo
from fencepost.cli.options import app_option, json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX

if TYPE_CHECKING:
    from fencepost.app import JobHandle, Sent
    from fencepost.core.events import SentEvent

UNHANDLED = "no handler matches; recorded"


@click.group()
def events() -> None:
    """Events: what has happened, and the jobs of those who handle it."""


@events.command("send")
@click.argument("name")
@click.argument("payload", metavar="[JSON]", default="{}")
@app_option
@option("--key", help="Idempotency key of every handler's job; refused if one of them is live.")
@url_option
@json_option
@pass_settings
def send(
    settings: Settings,
    name: str,
    payload: str,
    app_name: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Send the event NAME to every handler of APP that matches.

    JSON is an object: the keyword arguments of the handlers. `-` reads it from standard input. They
    are checked against the signature of each handler.
    """
    settings.configure_logging(default="ERROR")  # that nobody handles it is said in words
    data = parse_payload(payload, must_be_object=True)
    with find_app(app_name, settings) as app:
        event = app.event(name)
        sent = event.send(**data) if key is None else event.send_idempotent(key, **data)
    _answer(settings, sent, as_json=as_json)


def _answer(settings: Settings, sent: Sent[JobHandle[Any]], *, as_json: bool) -> None:
    from fencepost.cli.output import echo_json, echo_table, is_terminal

    if as_json:
        jobs = [
            {"id": job.id, "type": job.type, "state": job.state, "duplicate": job.duplicate}
            for job in sent.jobs
        ]
        echo_json({"id": sent.id, "name": sent.name, "sent_at": sent.sent_at, "jobs": jobs})
        return
    echo(sent.id)
    if not sent.jobs:
        echo(UNHANDLED, err=True)
        return
    rows = [(job.id, job.type, job.state, _fate(job.duplicate)) for job in sent.jobs]
    echo_table(("JOB", "TYPE", "STATE", "IS"), rows)
    if is_terminal():
        following = settings.say("jobs", "ls", "--correlation-id", sent.id)
        echo(f"recorded; next: {following}", err=True)


def _fate(is_duplicate: bool) -> str:
    return "duplicate" if is_duplicate else "new"


@events.command("ls")
@option("--name", "name", help="Of this name.")
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
def ls(settings: Settings, name: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List events that were sent, newest first, and the jobs they came to."""
    from fencepost.cli.output import echo_json, echo_table, when

    with settings.opened() as app:
        page = app.events.find(name=name, after=after, limit=limit)
    if as_json:
        echo_json({"events": [event_view(event) for event in page], "next": page.next})
        return
    rows = [(event.id, event.name, when(event.sent_at), event.key, _told(event)) for event in page]
    echo_table(("ID", "NAME", "SENT AT (UTC)", "KEY", "JOBS"), rows, empty="no events")
    if page.next:
        echo(f"more: {settings.say('events', 'ls', '--after', page.next)}", err=True)


def _told(event: SentEvent) -> str:
    """Return the types of an event's jobs, those that were there before marked."""
    types = (f"{job.type} (duplicate)" if job.is_duplicate else job.type for job in event.jobs)
    return ", ".join(types) or "none"


def event_view(event: SentEvent) -> dict[str, Any]:
    """Return the record of an event as JSON shows it."""
    from fencepost.cli.views import body_view

    return {
        "id": event.id,
        "name": event.name,
        "sent_at": event.sent_at,
        "key": event.key,
        **body_view("payload", event.payload),
        "jobs": [
            {"id": job.job_id, "type": job.type, "duplicate": job.is_duplicate}
            for job in event.jobs
        ],
    }

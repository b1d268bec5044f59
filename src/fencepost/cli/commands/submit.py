"""``fencepost submit`` and ``fencepost events``: both check arguments against the handlers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.apps import find_app, store_app
from fencepost.cli.options import (
    DURATION,
    TAG,
    Settings,
    option,
    page_options,
    priority_option,
    store_options,
)
from fencepost.cli.output import (
    Cell,
    Columns,
    clean,
    echo,
    echo_hint,
    echo_json,
    echo_list,
    echo_table,
    moment,
    rows_of,
    short_id,
)
from fencepost.clock import SystemClock
from fencepost.errors import ConfigurationError, WaitTimeoutError

if TYPE_CHECKING:
    from fencepost.app import App, JobHandle
    from fencepost.core.events import SentEvent

WHY_AFTER = 2.0
"""Seconds without a result after which `--wait` prints what the job is waiting for."""

AS_OBJECT = 'write the keyword arguments as an object, such as \'{"to": "a@b.c"}\''

EVENT_COLUMNS: Columns[SentEvent] = {
    "ID": lambda event: Cell.of(event.id),  # to be typed as a correlation id
    "NAME": lambda event: event.name,
    "SENT AT (UTC)": lambda event: moment(event.sent_at),
    "KEY": lambda event: event.key,
    "JOBS": lambda event: _types(event),
}
SENT_COLUMNS: Columns[JobHandle[Any]] = {
    "JOB": lambda job: short_id(job.id),
    "TYPE": lambda job: job.type,
    "STATE": lambda job: job.state,
    "IS": lambda job: "duplicate" if job.duplicate else "new",
}


@click.command()
@click.argument("type")
@click.argument("payload", metavar="[JSON]", default="{}")
@option("--raw", is_flag=True, help="Store it without an app: unchecked, with the default policy.")
@option("--delay", type=DURATION, help="Run it no earlier than this long from now.")
@priority_option
@option("--queue", help="The queue, instead of the task's.")
@option("--key", help="Idempotency key: while a job holds it, that job is returned.")
@option("--tag", "tags", type=TAG, multiple=True, help="A tag (repeatable).")
@option("--correlation-id", help="The correlation id.")
@option("--callback-url", help="Send a webhook there when the job has ended.")
@option("--wait", is_flag=True, help="Wait for the result and print it.")
@option("--timeout", type=DURATION, help="With --wait: how long to wait at most.")
@store_options
def submit(
    settings: Settings,
    /,
    type: str,
    payload: str,
    raw: bool,
    wait: bool,
    timeout: float | None,
    **options: Any,
) -> None:
    """Submit a job of TYPE and print its id.

    JSON is an object: the keyword arguments of the task. `-` reads it from standard input. They
    are checked against the signature of the task in APP.
    """
    value = parse_payload(payload, must_be_object=not raw)
    with _app_for(settings, raw) as app:
        # As ``TaskHandle.using`` names them; what was not given is left to the task.
        given = {**options, "tags": dict(options["tags"]) or None}
        given = {name: value for name, value in given.items() if value is not None}
        job = (_submit_raw if raw else _submit_checked)(app, type, value, given)
        _answer(settings, job, wait=wait, timeout=timeout)


def parse_payload(text: str, *, must_be_object: bool) -> Any:
    """Return the value of a JSON argument, or raise a usage error."""
    import msgspec

    try:
        data = sys.stdin.buffer.read() if text == "-" else text.encode()
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.BadParameter(
            f"not valid JSON: {error}; {AS_OBJECT}", param_hint="JSON"
        ) from None
    if must_be_object and not isinstance(value, dict):
        raise click.BadParameter(AS_OBJECT, param_hint="JSON")
    return value


def _app_for(settings: Settings, raw: bool) -> App:
    if raw:
        return store_app(settings)
    if not settings.has_app(settings.app_name):
        raise ConfigurationError(
            "no app to check the payload against: name it with --app module:attribute, or add "
            "--raw to store it unchecked"
        )
    return find_app(settings.app_name, settings)


def _submit_checked(app: App, type: str, value: Any, given: Any) -> JobHandle[Any]:
    from fencepost.actions.options import Options
    from fencepost.app import TaskHandle

    task: TaskHandle[..., Any] = TaskHandle(app.session, app.session.task(type), Options())
    return task.using(**given).submit(**value)


def _submit_raw(app: App, type: str, value: Any, given: Any) -> JobHandle[Any]:
    """Store a job of a type that only its worker knows."""
    from fencepost.actions.options import Options, merge, new_job
    from fencepost.core.job.task import ForeignTask
    from fencepost.core.values.names import check_type
    from fencepost.core.values.payload import check_size, encode

    checked = merge(Options(), given, app.timeouts, webhooks=app.session.webhooks)
    payload = check_size(encode(value), app.session.max_payload)
    job = new_job(ForeignTask(type=check_type(type)), payload, checked)
    return app.submit_many([job])[0]


def _answer(settings: Settings, job: JobHandle[Any], *, wait: bool, timeout: float | None) -> None:
    from fencepost.core.values.payload import body_fields

    view = handle_view(job)
    if wait:
        echo(f"submitted {job.id}", err=True)
        _await(job, timeout)
        view |= {"state": job.state, **body_fields("result", job.refresh().result_body)}
    if settings.as_json:
        echo_json(view)
    elif wait:
        echo_json(view.get("result", view.get("result_base64")))
    else:
        echo(job.id)
        done = "not stored again: this job holds the key" if job.duplicate else "stored"
        if job.differs:
            done += f", and its payload differs at {clean(', '.join(job.differs))}"
        echo_hint(f"{done}; next: {settings.say('jobs', 'show', job.id)}")


def _await(job: JobHandle[Any], timeout: float | None) -> None:
    """Wait for the end of *job*; while nothing happens, print why not, each reason once."""
    clock = SystemClock()
    until = None if timeout is None else clock.monotonic() + timeout
    printed: set[str] = set()
    while True:
        left = WHY_AFTER if until is None else min(WHY_AFTER, max(until - clock.monotonic(), 0.0))
        try:
            job.result(left)
            return
        except WaitTimeoutError as error:
            if until is not None and clock.monotonic() >= until:
                assert timeout is not None
                raise WaitTimeoutError(job.id, timeout, job.state) from error
        for reason in job.why():
            if reason.code not in printed:
                printed.add(reason.code)
                echo(f"  {reason.text} ({reason.code})", err=True)


def handle_view(job: JobHandle[Any]) -> dict[str, Any]:
    """Return a submitted job as JSON shows it."""
    view = {"id": job.id, "type": job.type, "state": job.state, "duplicate": job.duplicate}
    return {**view, "differs": job.differs} if job.duplicate else view


@click.group()
def events() -> None:
    """Events: send one, list those that were sent."""


@events.command("send")
@click.argument("name")
@click.argument("payload", metavar="[JSON]", default="{}")
@option(
    "--key", help="Idempotency key of every handler's job; refused while one of these jobs is live."
)
@store_options
def send(settings: Settings, name: str, payload: str, key: str | None) -> None:
    """Send the event NAME to every handler of APP that matches.

    JSON is an object: the keyword arguments of the handlers. `-` reads it from standard input. They
    are checked against the signature of each handler.
    """
    settings.configure_logging(default="ERROR")  # an unhandled event is reported below
    data = parse_payload(payload, must_be_object=True)
    with find_app(settings.app_name, settings) as app:
        event = app.event(name)
        sent = event.send(**data) if key is None else event.send_idempotent(key, **data)
    if settings.as_json:
        jobs = [handle_view(job) for job in sent.jobs]
        echo_json({"id": sent.id, "name": sent.name, "sent_at": sent.sent_at, "jobs": jobs})
        return
    echo(sent.id)
    if not sent.jobs:
        echo("no handler matches; recorded", err=True)
        return
    echo_table(SENT_COLUMNS, rows_of(SENT_COLUMNS, sent.jobs))
    echo_hint(f"recorded; next: {settings.say('jobs', 'ls', '--correlation-id', sent.id)}")


@events.command("ls")
@option("--name", "name", help="Of this name.")
@page_options
@store_options
def ls(settings: Settings, name: str | None, limit: int, after: str | None) -> None:
    """List events that were sent, newest first, and the types of their jobs."""
    with settings.opened() as app:
        page = app.events.find(name=name, after=after, limit=limit)
    view = {"events": [event_view(event) for event in page], "next": page.next}
    more = settings.next_page(page.next)
    echo_list(settings, view, EVENT_COLUMNS, page, empty="no events", more=more)


def _types(event: SentEvent) -> str:
    """Return the types of an event's jobs; a job that existed before is marked as a duplicate."""
    types = (f"{job.type} (duplicate)" if job.is_duplicate else job.type for job in event.jobs)
    return ", ".join(types) or "none"


def event_view(event: SentEvent) -> dict[str, Any]:
    """Return the record of an event as JSON shows it."""
    from fencepost.core.values.payload import body_fields

    jobs = [
        {"id": job.job_id, "type": job.type, "duplicate": job.is_duplicate} for job in event.jobs
    ]
    about = {"id": event.id, "name": event.name, "sent_at": event.sent_at, "key": event.key}
    return {**about, **body_fields("payload", event.payload), "jobs": jobs}

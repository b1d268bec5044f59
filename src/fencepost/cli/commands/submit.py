"""``fencepost submit``: a job from the command line, checked by its task's own signature."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.apps import find_app, has_default_app, point
from fencepost.cli.lines import echo
from fencepost.cli.options import (
    DURATION,
    TAG,
    app_option,
    json_option,
    option,
    parse_priority_text,
    pass_settings,
    url_option,
)
from fencepost.cli.settings import Settings
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from fencepost.app import App, JobHandle


@click.command()
@click.argument("type")
@click.argument("payload", metavar="[JSON]", default="{}")
@app_option
@option("--raw", is_flag=True, help="Store it unchecked, with default policy and without an app.")
@option("--delay", type=DURATION, help="Not before this long from now.")
@option("--priority", help="0 (critical) to 4 (bulk), or the name.")
@option("--queue", help="Another queue than the task's own.")
@option("--key", help="Idempotency key: while it is held, the existing job is returned.")
@option("--tag", "tags", type=TAG, multiple=True, help="A tag (repeatable).")
@option("--correlation-id", help="What this job belongs to.")
@option("--callback-url", help="Where a webhook goes when the job has ended.")
@option("--wait", is_flag=True, help="Wait for the result and print it.")
@option("--timeout", type=DURATION, help="With --wait: how long at the most.")
@url_option
@json_option
@pass_settings
def submit(
    settings: Settings,
    /,
    type: str,
    payload: str,
    app_name: str | None,
    raw: bool,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a job of TYPE and print its id.

    JSON is an object: the keyword arguments of the task. `-` reads it from standard input. They
    are checked against the signature of the task in APP.
    """
    value = parse_payload(payload, must_be_object=not raw)
    with _app_for(settings, app_name, raw) as app:
        send = _submit_raw if raw else _submit_checked
        job = send(app, type, value, options)
        _answer(settings, job, wait=wait, timeout=timeout, as_json=as_json)


def parse_payload(text: str, *, must_be_object: bool) -> Any:
    """Return the value of a JSON argument, or raise a usage error."""
    import msgspec

    try:
        data = sys.stdin.buffer.read() if text == "-" else text.encode()
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.BadParameter(f"not valid JSON: {error}", param_hint="JSON") from None
    if must_be_object and not isinstance(value, dict):
        raise click.BadParameter(
            'write the keyword arguments as an object, such as \'{"to": "a@b.c"}\'',
            param_hint="JSON",
        )
    return value


def _app_for(settings: Settings, app_name: str | None, raw: bool) -> App:
    from fencepost.app import App

    if raw:
        app = App()
        point(app, settings.url)
        return app
    if app_name is None and not has_default_app():
        raise ConfigurationError(
            "no app to check the payload against: name it with --app module:attribute, or add "
            "--raw to store it unchecked"
        )
    return find_app(app_name, settings)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as ``TaskHandle.using`` names them."""
    given = {**options, "priority": parse_priority_text(options["priority"])}
    given["tags"] = dict(options["tags"])
    return {name: value for name, value in given.items() if value not in (None, {})}


def _submit_checked(app: App, type: str, value: Any, options: dict[str, Any]) -> JobHandle[Any]:
    from fencepost.actions.options import Options
    from fencepost.app import TaskHandle

    task: TaskHandle[..., Any] = TaskHandle(app.session, app.session.task(type), Options())
    return task.using(**_given(options)).submit(**value)


def _submit_raw(app: App, type: str, value: Any, options: dict[str, Any]) -> JobHandle[Any]:
    """Store a job of a type that only its worker knows."""
    from fencepost.actions.options import Options, merge, new_job
    from fencepost.core.job.task import ForeignTask
    from fencepost.core.values.names import check_type
    from fencepost.core.values.payload import check_size, encode

    given: Any = _given(options)
    checked = merge(Options(), given, app.timeouts, webhooks=app.session.webhooks)
    payload = check_size(encode(value), app.session.max_payload)
    job = new_job(ForeignTask(type=check_type(type)), payload, checked)
    return app.submit_many([job])[0]


def _answer(
    settings: Settings, job: JobHandle[Any], *, wait: bool, timeout: float | None, as_json: bool
) -> None:
    from fencepost.cli.output import echo_json, is_terminal
    from fencepost.cli.views import body_view

    view: dict[str, Any] = {"id": job.id, "type": job.type, "state": job.state}
    view["duplicate"] = job.duplicate
    if wait:
        job.result(timeout)
        view["state"] = job.state
        view |= body_view("result", job.refresh().result)
    if as_json:
        echo_json(view)
    elif wait:
        echo_json(view.get("result", view.get("result_base64")))
    else:
        echo(job.id)
        if is_terminal():
            kept = "kept: its key is held by this job" if job.duplicate else "stored"
            echo(f"{kept}; next: {settings.say('jobs', 'show', job.id)}", err=True)

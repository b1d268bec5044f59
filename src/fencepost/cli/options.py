"""Options that several verbs share. Each has an environment variable, and shows it in --help."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from fencepost.cli.settings import Settings
from fencepost.clock import SystemClock
from fencepost.core.display import shown
from fencepost.core.values.duration import parse_duration
from fencepost.core.values.instants import parse_instant
from fencepost.errors import FencepostError, InvalidDurationError

F = TypeVar("F", bound=Callable[..., Any])
LEVELS = ("debug", "info", "warning", "error")
PRIORITY_DIGITS_MAX = 3

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
    _PairType = click.ParamType[tuple[str, str]]
    _InstantType = click.ParamType[datetime]
else:  # click before 8.2 has no type parameter
    _FloatType = _PairType = _InstantType = click.ParamType

pass_settings = click.make_pass_decorator(Settings, ensure=True)


def option(*names: str, **attrs: Any) -> Callable[[F], F]:
    """As ``click.option``, with its environment variable shown."""
    return click.option(*names, **{"show_envvar": True, **attrs})


class DurationType(_FloatType):
    """``30s``, ``10m``, ``1h30m``, or plain seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return parse_duration(_number_or_text(value), name=str(param and param.name))
        except FencepostError as error:
            self.fail(str(error), param, ctx)


class InstantType(_InstantType):
    """A time in ISO 8601, in UTC unless it says otherwise; or ``10m``, which is ten minutes ago."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        name = str(param and param.name)
        try:
            return SystemClock().now() - timedelta(seconds=parse_duration(value, name=name))
        except InvalidDurationError:
            pass  # then it is a time
        try:
            return parse_instant(value, name=name)
        except FencepostError as error:
            self.fail(str(error), param, ctx)


class TagType(_PairType):
    """``name=value``."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        name, equals, text = str(value).partition("=")
        if not (name and equals):
            self.fail(f"{shown(value)} is not of the form name=value", param, ctx)
        return name, text


DURATION = DurationType()
INSTANT = InstantType()
TAG = TagType()


def _number_or_text(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def parse_priority_text(value: str | None) -> int | str | None:
    """Return a priority as its number if it is one; names are read further on."""
    is_number = value is not None and len(value) <= PRIORITY_DIGITS_MAX and value.isdecimal()
    return int(value) if value is not None and is_number and value.isascii() else value


# Options that mean the same before the verb and after it; typed after it, they win.


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
        settings = ctx.ensure_object(Settings)
        setattr(settings, param.name, value)
        if param.name == "url":
            settings.is_url_given = True


def url_option(function: F) -> F:
    """Let --url be typed after the verb as well."""
    return option(
        "--url",
        expose_value=False,
        callback=_remember,
        envvar="FENCEPOST_URL",
        help="The store, as in `fencepost --url`.",
    )(function)


def log_options(function: F) -> F:
    """Let --log-level and --log-json be typed after the verb as well."""
    level = option(
        "--log-level",
        type=click.Choice(LEVELS, case_sensitive=False),
        expose_value=False,
        callback=_remember,
        envvar="FENCEPOST_LOG_LEVEL",
        help="How much to log; info unless told.",
    )
    as_json = option(
        "--log-json",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        envvar="FENCEPOST_LOG_JSON",
        help="Log one JSON object a line.",
    )
    return level(as_json(function))


def json_option(function: F) -> F:
    """Let the answer be JSON."""
    return option(
        "--json", "as_json", is_flag=True, envvar="FENCEPOST_JSON", help="Answer in JSON."
    )(function)


def app_option(function: F) -> F:
    """Name the app by an option."""
    return option(
        "--app",
        "app_name",
        metavar="MODULE:ATTRIBUTE",
        envvar="FENCEPOST_APP",
        help="The app; found by itself when it is `app` in app.py.",
    )(function)


def filter_options(function: F) -> F:
    """Say which jobs are meant."""
    for add in reversed(
        (
            option(
                "--state", "state", multiple=True, help="In this state (repeatable), or `failed`."
            ),
            option("--type", "type", help="Of this type."),
            option("--queue", "queue", help="In this queue."),
            option("--tag", "tags", type=TAG, multiple=True, help="With this tag (repeatable)."),
            option("--correlation-id", "correlation_id", help="With this correlation id."),
            option("--flow", "flow", help="Of this flow."),
            option(
                "--created-after",
                "created_after",
                type=INSTANT,
                help="Submitted at this time or later, or at the most so long ago.",
            ),
            option(
                "--created-before",
                "created_before",
                type=INSTANT,
                help="Submitted before this time, or longer ago.",
            ),
        )
    ):
        function = add(function)
    return function


def as_filter(
    state: tuple[str, ...],
    type: str | None,
    queue: str | None,
    tags: tuple[tuple[str, str], ...],
    correlation_id: str | None,
    flow: str | None,
    created_after: datetime | None,
    created_before: datetime | None,
) -> dict[str, Any]:
    """Return what ``filter_options`` gave as keyword arguments of ``app.jobs.find``."""
    return {
        "state": list(state) or None,
        "type": type,
        "queue": queue,
        "tags": dict(tags) or None,
        "correlation_id": correlation_id,
        "flow": flow,
        "created_after": created_after,
        "created_before": created_before,
    }

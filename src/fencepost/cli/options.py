"""The global options, and options that several commands share.

Each option has an environment variable, which --help shows.
"""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import click
from click.core import ParameterSource

from fencepost.cli.apps import find_app, has_default_app
from fencepost.clock import SystemClock
from fencepost.core.bounds import CONCURRENCY_MAX, PAGE_DEFAULT, PAGE_MAX
from fencepost.core.display import shown, shown_url
from fencepost.core.values.times import parse_duration, parse_instant
from fencepost.errors import ConfigurationError, FencepostError, InvalidDurationError
from fencepost.store.url import DEFAULT_URL, URL_VARIABLE, url_from_environment

F = TypeVar("F", bound=Callable[..., Any])
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
PRIORITY_DIGITS_MAX = 3
WORDS = "fencepost.words"
"""What was typed after the options of ``fencepost`` itself, in the context's ``meta``."""
LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535
PORT_DEFAULT = 8000

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.policy import PriorityLike

    _AnyType = click.ParamType[Any]
else:  # click before 8.2 has no type parameter
    _AnyType = click.ParamType


@dataclass
class Settings:
    """The options that all commands share: the store, logging, the form of output and errors."""

    url: str = DEFAULT_URL
    is_url_given: bool = False
    """True when --url was typed; it then overrides the URL of an app."""
    app_name: str | None = None
    is_app_typed: bool = False
    """True when --app was typed, and not taken from the environment."""
    app: App | None = None
    """The app whose store the command uses, if one is named, or if a framework has it."""
    log_level: str | None = None
    log_format: str | None = None
    debug: bool = False
    as_json: bool = False
    program: tuple[str, ...] = ("fencepost",)
    """How this command is typed, for the commands that it recommends."""
    child_program: tuple[str, ...] = (sys.executable, "-m", "fencepost")
    """How it starts itself again, for child processes."""
    project: str | None = None
    """The app that is meant where none is named, of a framework's own command."""

    def say(self, *words: str) -> str:
        """Return a command to run next on the same store, without a password."""
        start = [*self.program]
        is_implied = self.project is not None and not self.is_url_given
        if not is_implied and self.url != url_from_environment():
            start += ["--url", shown_url(self.url)]
        return shlex.join([*start, *words])

    def next_page(self, cursor: str | None) -> str | None:
        """Return the command that was typed, for the page after *cursor*; None after the last."""
        return None if cursor is None else self.repeated("--after", cursor, without="--after")

    def repeated(self, *more: str, without: str = "--url") -> str:
        """Return the command that was typed, with *more* words, and *without* an option."""
        typed = iter(click.get_current_context().meta[WORDS])
        words: list[str] = []
        for word in typed:
            if word in (without, "--url"):
                next(typed, None)
            elif not word.startswith((f"{without}=", "--url=")):
                words.append(word)
        return self.say(*words, *more)

    def has_app(self, name: str | None) -> bool:
        """Return whether there is an app: *name*, that of a project, or one in this folder."""
        is_framework = self.project is not None or self.app is not None
        return name is not None or is_framework or has_default_app()

    def use_store_of_app(self) -> None:
        """Use the store and keys of the app that --app names, or FENCEPOST_APP without a URL."""
        is_url_set = self.is_url_given or self.url != DEFAULT_URL
        is_project = self.project is not None and not self.is_url_given
        if is_project or (self.app_name is not None and (self.is_app_typed or not is_url_set)):
            self.app = find_app(self.app_name, self)

    @contextmanager
    def opened(self, *, must_exist: bool = True) -> Iterator[App]:
        """Open the store and close it again; with *must_exist*, do not create a SQLite file."""
        from fencepost.app import App

        if must_exist:
            self._refuse_missing()
        with self.app or App(self.url) as app:
            yield app

    def _refuse_missing(self) -> None:
        path = sqlite_path(self.url)
        if path is not None and not path.exists():
            is_app_meant = self.app is None and self.url == DEFAULT_URL and has_default_app()
            hint = "the store of app.py with --app app, or " if is_app_meant else ""
            raise ConfigurationError(
                f"there is no database at {path.absolute()}; submit a job first, run this where "
                f"jobs were submitted, or name {hint}another store with --url or FENCEPOST_URL"
            )

    @property
    def logs_json(self) -> bool:
        return self.log_format == "json"

    def configure_logging(self, *, default: str = "INFO") -> None:
        """Log to standard error as the options say; without any, as the app has set it up."""
        from fencepost.observe.log import configure

        is_asked = self.log_level is not None or self.log_format is not None
        configure(
            level=self.log_level or default, style=self.log_format or "text", replaces=is_asked
        )


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite URL; None for other stores and for an invalid URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    name = unquote(parts.path).removeprefix("/")
    is_file = parts.scheme == "sqlite" and name and not parts.netloc and "\0" not in name
    return Path(name) if is_file else None


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def option(*names: str, **attrs: Any) -> Callable[[F], F]:
    """As ``click.option``, with its environment variable and its default in --help."""
    return click.option(*names, **{"show_envvar": True, "show_default": True, **attrs})


class ParsedType(_AnyType):
    """What *parse* makes of a value, given the name of the option; its errors are usage errors."""

    def __init__(self, name: str, parse: Callable[[Any, str], Any]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.parse(value, str(param and param.name))
        except FencepostError as error:
            self.fail(str(error), param, ctx)


def _parse_seconds(value: Any, name: str) -> float:
    with suppress(TypeError, ValueError):  # then it has to be a text with units
        value = float(value)
    return parse_duration(value, name=name)


def _parse_time(value: Any, name: str) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return SystemClock().now() - timedelta(seconds=parse_duration(value, name=name))
    except InvalidDurationError:
        return parse_instant(value, name=name)


def _parse_tag(value: Any, _: str) -> tuple[str, str]:
    if isinstance(value, tuple):
        return value[0], value[1]
    name, equals, text = str(value).partition("=")
    if not (name and equals):
        raise ConfigurationError(f"{shown(value)} is not of the form name=value")
    return name, text


DURATION = ParsedType("duration", _parse_seconds)
"""``30s``, ``10m``, ``1h30m``, or plain seconds."""
INSTANT = ParsedType("time", _parse_time)
"""A time in ISO 8601, UTC by default; or a duration: ``10m`` is ten minutes ago."""
TAG = ParsedType("name=value", _parse_tag)


def parse_priority_text(value: str | None) -> PriorityLike | None:
    """Return a priority as a number if it is one; names are checked later."""
    is_number = value is not None and len(value) <= PRIORITY_DIGITS_MAX and value.isdecimal()
    if value is not None and is_number and value.isascii():
        return int(value)
    return cast("PriorityLike | None", value)


def decorated(function: F, *options: Callable[[F], F]) -> F:
    """Return *function* with these options, in this order."""
    for add in reversed(options):
        function = add(function)
    return function


def remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a global option; after the subcommand, only if it was typed there: then it wins."""
    name = str(param.name)
    settings = ctx.ensure_object(Settings)
    is_typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    if is_typed or ctx.parent is None:
        setattr(settings, name, value)
    if is_typed and name == "url":
        settings.is_url_given = True


def url_option(function: F) -> F:
    """Accept --url after the subcommand as well."""
    return option(
        "--url",
        expose_value=False,
        callback=remember,
        envvar=URL_VARIABLE,
        help="The store, as in `fencepost --url`.",
    )(function)


def log_options(function: F) -> F:
    """Accept --log-level and --log-format, before the subcommand and after it."""
    return decorated(
        function,
        option(
            "--log-level",
            type=click.Choice(LEVELS, case_sensitive=False),
            expose_value=False,
            callback=remember,
            envvar="FENCEPOST_LOG_LEVEL",
            help="How much to log; the default is info.",
        ),
        option(
            "--log-format",
            type=click.Choice(FORMATS),
            expose_value=False,
            callback=remember,
            envvar="FENCEPOST_LOG_FORMAT",
            help="Lines for people, or one JSON object per line; the default is text.",
        ),
    )


def _answer_in_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.ensure_object(Settings).as_json = value


_json_option = option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_answer_in_json,
    envvar="FENCEPOST_JSON",
    help="Print JSON.",
)


def json_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept --json and pass the settings: for commands without a store, or with two."""
    return _json_option(pass_settings(function))


def service_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept --url and the options of logging, and pass the settings."""
    return decorated(pass_settings(function), url_option, log_options)


def _take_app(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    settings = ctx.ensure_object(Settings)
    settings.app_name = value
    is_typed = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    settings.is_app_typed = is_typed


_app_option = option(
    "--app",
    "app_name",
    metavar="MODULE:ATTRIBUTE",
    expose_value=False,
    callback=_take_app,
    envvar="FENCEPOST_APP",
    help="The app whose store and keys to use.",
)


def store_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept --app, --url and --json and pass the settings: what nearly every command takes."""

    @functools.wraps(function)
    def on_store(settings: Settings, /, *args: Any, **kwargs: Any) -> Any:
        settings.use_store_of_app()
        return function(settings, *args, **kwargs)

    return decorated(pass_settings(on_store), _app_option, url_option, _json_option)


def concurrency_option(default: int, text: str) -> Callable[[F], F]:
    """Accept --concurrency."""
    kind = click.IntRange(1, CONCURRENCY_MAX)
    return option("--concurrency", type=kind, default=default, help=text)


def wait_option(name: str, default: float, text: str) -> Callable[[F], F]:
    """Accept a duration, such as --grace."""
    return option(name, type=DURATION, default=default, show_default=f"{default:g}s", help=text)


def port_option(text: str) -> Callable[[F], F]:
    """Accept --port."""
    return option("--port", type=click.IntRange(0, PORT_MAX), default=PORT_DEFAULT, help=text)


priority_option = option(
    "--priority",
    callback=lambda _, __, value: parse_priority_text(value),
    help="0 (critical) to 4 (bulk), or the name.",
)


def page_options(function: F) -> F:
    """Accept --limit and --after."""
    return decorated(
        function,
        option(
            "--limit",
            type=click.IntRange(1, PAGE_MAX),
            default=PAGE_DEFAULT,
            show_default=True,
            help="How many at most.",
        ),
        option("--after", help="The cursor that the previous page ended with."),
    )


_APP = "fencepost.app"
"""What --app named, in the context's ``meta``."""


def _named_app(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Return the app that was named by --app, or as an argument; naming two is a mistake."""
    named: str | None = ctx.meta.pop(_APP, None)
    is_typed = ctx.get_parameter_source("app_name") is ParameterSource.COMMANDLINE
    if named is not None and is_typed:
        raise click.UsageError(f"name one app: {shown(value)} or --app {shown(named)}")
    return value if named is None else named


def _remember_app(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_APP] = value


def app_argument(function: F) -> F:
    """Accept APP, and --app as the commands that take it as an option do."""
    return decorated(
        function,
        click.argument(
            "app_name",
            metavar="[APP]",
            required=False,
            envvar="FENCEPOST_APP",
            callback=_named_app,
        ),
        click.option(
            "--app",
            "named_app",
            is_eager=True,  # before the argument, whatever the order on the line
            expose_value=False,
            hidden=True,
            callback=_remember_app,
        ),
    )

"""Conditions that select jobs; some have no index, such as ``--where payload.user.id=42``.

For those, jobs that meet the other conditions are read here, page by page, until there are enough,
there are no more, or ``--scan`` of them were read (``core/look.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from fencepost.cli.completion import complete
from fencepost.cli.options import INSTANT, TAG, ParsedType, decorated, option, parse_priority_text
from fencepost.cli.output import progress_bar
from fencepost.core.bounds import LOOK_MAX
from fencepost.core.display import amount, shown
from fencepost.core.filter import is_oldest_first, make_query
from fencepost.core.job.policy import Priority
from fencepost.core.look import parse_comparison
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.job import Job

F = TypeVar("F", bound=Callable[..., Any])

SCAN_DEFAULT: Final = LOOK_MAX
SCAN_MAX: Final = 10_000_000
PRIORITIES: Final = [priority.name.lower() for priority in Priority]


def look_options(function: F) -> F:
    """Accept conditions without an index."""
    return decorated(
        function,
        option(
            "--priority",
            "priority",
            type=click.Choice(PRIORITIES),
            multiple=True,
            help="With this priority (repeatable). Reads jobs one by one, as those below.",
        ),
        option("--error", "error", help="Failed with this class or code, or this in the message."),
        option(
            "--where",
            type=ParsedType("path=value", parse_comparison),
            multiple=True,
            help="Such as payload.user.id=42 (repeatable).",
        ),
    )


def scan_options(function: F) -> F:
    """Accept --scan and --order."""
    return decorated(
        function,
        option(
            "--scan",
            type=click.IntRange(1, SCAN_MAX),
            default=SCAN_DEFAULT,
            help="How many jobs to read at most, where jobs are read one by one.",
        ),
        option(
            "--order",
            type=click.Choice(["newest", "oldest"]),
            default="newest",
            help="Which come first.",
        ),
    )


class Scanned(NamedTuple):
    """Jobs that meet the conditions, where to go on, and what finding them took."""

    jobs: list[Job]
    next: str | None
    read: int | None = None
    """Jobs that were read, for a condition without an index."""
    unreadable: int = 0
    """Those among them that could not be compared: encrypted, or not JSON."""
    is_bounded: bool = False
    """Whether --scan stopped it."""

    @property
    def facts(self) -> dict[str, Any]:
        """What JSON says of the search."""
        return {} if self.read is None else {"read": self.read, "unreadable": self.unreadable}

    @property
    def notes(self) -> list[str]:
        """What a person should know about the search."""
        if self.read is None:
            return []
        notes = [f"read {amount(self.read, 'job')}, {len(self.jobs):,} match"]
        if self.is_bounded:
            notes.append("stopped by --scan; other jobs were not read: go on after the last one")
        if self.unreadable:
            notes.append(
                f"{self.unreadable:,} cannot be compared and do not match: they are not JSON, or "
                f"encrypted with keys that are not here; name an app that has the keys with --app, "
                f"or set FENCEPOST_KEYS"
            )
        return notes


def search(
    app: App, wanted: dict[str, Any], *, limit: int, after: str | None, bound: int, order: str
) -> Scanned:
    """Return up to *limit* jobs that meet all conditions; read at most *bound*."""
    query = make_query(**wanted)
    # A search by an index is over before a bar could be read.
    bar = nullcontext(lambda _: None) if query.look.is_any else progress_bar("reading jobs", bound)
    with bar as advance:
        read = 0

        def on_read(looked: int) -> None:
            nonlocal read
            advance(looked - read)
            read = looked

        oldest = is_oldest_first(order)
        page = app.session.run(
            app.session.actions.jobs.find(
                query, after, limit, is_oldest_first=oldest, bound=bound, on_read=on_read
            )
        )
    is_bounded = page.looked is not None and page.next is not None and len(page.jobs) < limit
    return Scanned(page.jobs, page.next, page.looked, page.unreadable, is_bounded)


def filter_options(function: F) -> F:
    """Accept conditions that select jobs; ``as_filter`` collects them."""
    return decorated(
        function,
        option("--state", "state", multiple=True, help="In this state (repeatable), or `failed`."),
        option("--type", "type", shell_complete=complete("type"), help="Of this type."),
        option("--queue", "queue", shell_complete=complete("queue"), help="In this queue."),
        option("--tag", "tags", type=TAG, multiple=True, help="With this tag (repeatable)."),
        option("--correlation-id", "correlation_id", help="With this correlation id."),
        option("--flow", "flow", help="Of this flow."),
        option("--key", "key", help="The last of its type with this idempotency key."),
        option(
            "--created-after",
            "created_after",
            type=INSTANT,
            help="Submitted at this time or later; `10m` is the last ten minutes.",
        ),
        option(
            "--created-before",
            "created_before",
            type=INSTANT,
            help="Submitted before this time; `10m` is more than ten minutes ago.",
        ),
    )


def as_filter(
    state: tuple[str, ...],
    tags: tuple[tuple[str, str], ...],
    priority: tuple[str, ...] = (),
    where: tuple[Any, ...] = (),
    **others: Any,
) -> dict[str, Any]:
    """Return the values of the options as keyword arguments of ``app.jobs.find``."""
    looked = {"priority": list(priority) or None, "where": list(where) or None}
    return {"state": list(state) or None, "tags": dict(tags) or None, **looked, **others}


class NamedCondition(NamedTuple):
    """A condition in one text: its name, and its value."""

    name: str
    value: Any


_ONE: Final = ("type", "queue", "correlation_id", "flow", "id_prefix", "key", "error")
_TIMES: Final = ("created_after", "created_before")
_MANY: Final = ("state", "priority", "where")


def parse_condition(given: Any, _: str = "of") -> NamedCondition:
    """Return a condition such as ``type:send_mail``; raise ConfigurationError."""
    if isinstance(given, NamedCondition):
        return given
    text = str(given)
    name, colon, value = text.partition(":")
    name = name.replace("-", "_")
    if colon and name == "tag":
        return NamedCondition(name, TAG.parse(value.replace(":", "=", 1), name))
    if colon and name in _TIMES:
        return NamedCondition(name, INSTANT.parse(value, name))
    if colon and name == "priority":
        return NamedCondition(name, parse_priority_text(value))
    if not colon or name not in (*_ONE, *_MANY):
        names = ", ".join(sorted((*_ONE, *_MANY, *_TIMES, "tag")))
        raise ConfigurationError(
            f"{shown(text)} is not a condition such as type:send_mail; there are {names}"
        )
    return NamedCondition(name, value)


def collected(conditions: tuple[NamedCondition, ...]) -> dict[str, Any]:
    """Return conditions as keyword arguments of ``app.jobs.find``; one that is given twice is an
    error unless it may have several values."""
    found: dict[str, Any] = {}
    for name, value in conditions:
        if name == "tag":
            found.setdefault("tags", {}).update([value])
        elif name in _MANY:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise click.UsageError(f"{name} is given twice")
        else:
            found[name] = value
    return found


def of_option(function: F) -> F:
    """Accept conditions where options of their names mean something else."""
    return decorated(
        function,
        option(
            "--of",
            type=ParsedType("name:value", parse_condition),
            multiple=True,
            help="Instead of ids: jobs that meet this, such as type:send_mail (repeatable).",
        ),
    )

"""Conditions that select jobs; with ``--where``, on what they carry: ``payload.user.id=42``.

No store has an index on payloads. Jobs that meet the other conditions are read here, page by page,
until there are enough, there are no more, or ``--scan`` of them were read.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
import msgspec

from fencepost.cli.completion import complete
from fencepost.cli.jobs.show import job_view
from fencepost.cli.options import INSTANT, TAG, ParsedType, decorated, option
from fencepost.cli.output import progress_bar
from fencepost.core.display import shown
from fencepost.core.filter import JobFilter, PageRequest, encode_cursor, make_filter, make_page
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.job import Job

F = TypeVar("F", bound=Callable[..., Any])

ROOTS: Final = ("payload", "result", "checkpoint", "progress", "failure")
SCAN_DEFAULT: Final = 10_000
SCAN_MAX: Final = 10_000_000
SCAN_PAGE: Final = 200
"""Jobs of a page: their payloads are in memory at once."""
MISSING: Final = object()

_CONDITION = re.compile(r"\s*([^=!<>]+?)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Comparison(NamedTuple):
    """What is at *path* compares to *value*, or to the *text* that was typed."""

    path: tuple[str, ...]
    compare: str
    text: str
    value: Any

    def is_met(self, view: dict[str, Any]) -> bool:
        """Return whether a job meets it; one that has nothing at the path meets only ``!=``."""
        found = self._find(view)
        if self.compare in _ORDERS:
            return self._is_ordered(found)
        return self._is_equal(found) == (self.compare == "=")

    def _find(self, found: Any) -> Any:
        for part in self.path:
            if isinstance(found, dict) and part in found:
                found = found[part]
            elif isinstance(found, list) and part in map(str, range(len(found))):
                found = found[int(part)]
            else:
                return MISSING
        return found

    def _is_equal(self, found: Any) -> bool:
        if isinstance(found, str) and found == self.text:
            return True
        # True equals 1 in Python, and not in JSON.
        return isinstance(found, bool) == isinstance(self.value, bool) and found == self.value

    def _is_ordered(self, found: Any) -> bool:
        order = _ORDERS[self.compare]
        if isinstance(found, str):
            text = self.value if isinstance(self.value, str) else self.text
            return bool(order(found, text))
        are_numbers = all(type(each) in (int, float) for each in (found, self.value))
        return are_numbers and bool(order(found, self.value))


def parse_comparison(given: Any, _: str = "where") -> Comparison:
    """Return a condition such as ``payload.user.id=42``; raise ConfigurationError."""
    if isinstance(given, Comparison):
        return given
    found = _CONDITION.fullmatch(str(given))
    path = tuple(found[1].split(".")) if found else ()
    if found is None or path[0] not in ROOTS or not all(path):
        raise ConfigurationError(
            f"{shown(given)} is not a condition such as payload.user.id=42: it begins with "
            f"{', '.join(ROOTS)}, and compares by = != < <= > >="
        )
    text = found[3].strip()
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        value = text
    return Comparison(path, found[2], text, value)


def where_options(function: F) -> F:
    """Accept --where and --scan."""
    return decorated(
        function,
        option(
            "--where",
            type=ParsedType("path=value", parse_comparison),
            multiple=True,
            help="Such as payload.user.id=42 (repeatable). Reads jobs one by one, up to --scan.",
        ),
        option(
            "--scan",
            type=click.IntRange(1, SCAN_MAX),
            default=SCAN_DEFAULT,
            help="With --where: how many jobs to read at most.",
        ),
    )


class Scanned(NamedTuple):
    """Jobs that meet the conditions, where to go on, and what finding them took."""

    jobs: list[Job]
    next: str | None
    read: int | None = None
    """Jobs that were read because of --where."""
    encrypted: int = 0
    """Those among them that could not be decrypted here."""
    is_bounded: bool = False
    """Whether --scan stopped it."""

    @property
    def facts(self) -> dict[str, Any]:
        """What JSON says of the search."""
        return {} if self.read is None else {"read": self.read, "encrypted": self.encrypted}

    @property
    def notes(self) -> list[str]:
        """What a person should know about the search."""
        if self.read is None:
            return []
        notes = [f"read {self.read:,} jobs, {len(self.jobs):,} match"]
        if self.is_bounded:
            notes.append("stopped by --scan; older jobs were not read: go on after the last one")
        if self.encrypted:
            notes.append(
                f"{self.encrypted:,} are encrypted with keys that are not here, or were altered, "
                f"and do not match: name an app that has the keys with --app, or set FENCEPOST_KEYS"
            )
        return notes


def search(
    app: App,
    wanted: dict[str, Any],
    conditions: Sequence[Comparison],
    *,
    limit: int,
    after: str | None,
    bound: int,
) -> Scanned:
    """Return up to *limit* jobs that meet all conditions; read at most *bound*, newest first."""
    if not conditions:
        page = app.jobs.find(**wanted, limit=limit, after=after)
        return Scanned(page.jobs, page.next)
    listing = app.store.jobs_listing
    position = make_page(limit=limit, after=after, of=listing).after
    jobs: list[Job] = []
    read = encrypted = 0
    with progress_bar("reading jobs", bound) as advance:
        for job, following in _read(app, make_filter(**wanted), position, bound):
            position = following
            advance(1)
            read += 1
            view = job_view(job, full=True)
            if any(f"{each.path[0]}_encrypted" in view for each in conditions):
                encrypted += 1
            elif all(each.is_met(view) for each in conditions):
                jobs.append(job)
            if len(jobs) == limit:
                break
    cursor = None if position is None or not read else encode_cursor(position, listing)
    return Scanned(jobs, cursor, read, encrypted, cursor is not None and len(jobs) < limit)


def _read(
    app: App, filter: JobFilter, position: int | None, bound: int
) -> Iterator[tuple[Job, int | None]]:
    """Yield up to *bound* jobs, each with the position after which there are more; or None."""
    read = 0
    while read < bound:
        request = PageRequest(min(SCAN_PAGE, bound - read), position)
        page = app.store.run(app.store.reader.find(filter, request))
        read += len(page.jobs)
        yield from zip(page.jobs, [*page.positions[:-1], page.next], strict=False)
        if page.next is None:
            return
        position = page.next


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
    state: tuple[str, ...], tags: tuple[tuple[str, str], ...], **others: Any
) -> dict[str, Any]:
    """Return the values of ``filter_options`` as keyword arguments of ``app.jobs.find``."""
    return {"state": list(state) or None, "tags": dict(tags) or None, **others}

"""Output: tables on a terminal, aligned text in a pipe, JSON with ``--json``.

A terminal gets what a person reads at a glance: short ids, relative times, no empty columns. A pipe
gets whole ids, exact times and every column, for scripts.

Everything that users have stored (names, messages, payloads) is written through here, so that it
can neither control the terminal nor start a line of its own. ``tests/cli/test_hostile.py`` checks
that no command calls ``click.echo`` directly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fencepost.cli.table import STATE_STYLES as STATE_STYLES
from fencepost.cli.table import Cell as Cell
from fencepost.cli.table import clean as clean
from fencepost.cli.table import lay_out
from fencepost.cli.table import styled as styled
from fencepost.clock import SystemClock
from fencepost.core.display import in_ascii, printable_json, relative

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from fencepost.cli.options import Settings

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], object]]
"""The columns of a list of things: by title, what the cell shows of one of them."""
SHORT_ID = 8


def clean_lines(text: str) -> list[str]:
    """Return the lines of a text that may have several, such as a traceback; indent them."""
    return [clean(line) for line in text.split("\n")]


def echo(line: object = "", *, err: bool = False) -> None:
    """Write one line."""
    click.echo(clean(line), err=err)


def echo_hint(line: str) -> None:
    """Write a hint for a person to standard error; nothing in a pipe."""
    if is_terminal():
        echo(line, err=True)


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def has_screen() -> bool:
    """Return whether standard output is a terminal on which one can draw anywhere."""
    return is_terminal() and console().is_terminal and not console().is_dumb_terminal


def console() -> Console:
    """Return the terminal as rich sees it; rich itself honours NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False)


def for_terminal(lines: Iterable[Text]) -> list[Text]:
    """Return *lines* as the terminal can show them."""
    shown = list(lines)
    if not can_show("█", sys.stdout.encoding):
        for line in shown:
            line.plain = in_ascii(line.plain)
    return shown


def can_show(text: str, encoding: str | None) -> bool:
    """Return whether a terminal of this encoding has the characters of *text*."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def when(at: datetime | None) -> str:
    """Return a time in UTC, for people."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def moment(at: datetime | None) -> Cell:
    """Return a time for a table: how long ago or in how long it is, in a pipe exactly."""
    return Cell(when(at), "" if at is None else relative(at, SystemClock().now()))


def short_id(job_id: str) -> Cell:
    """Return the id of a job for a table; what a terminal shows is enough to type."""
    return Cell(job_id, job_id[:SHORT_ID])


def fitted(value: object) -> object:
    """Return *value* as standard output is to have it: a terminal shows a cell in short."""
    return value.short if isinstance(value, Cell) and is_terminal() else value


def counted(number: int) -> Cell:
    """Return a number for a table; a terminal shows no zero."""
    return Cell(str(number), f"{number:,}" if number else "")


def echo_json(value: Any) -> None:
    """Write *value* as one indented JSON document."""
    import msgspec

    encoded = msgspec.json.encode(value)
    click.echo(printable_json(msgspec.json.format(encoded, indent=2).decode()))


def echo_json_line(value: Any) -> None:
    """Write *value* as one line of JSON."""
    import msgspec

    click.echo(printable_json(msgspec.json.encode(value).decode()))


def echo_reply(settings: Settings, view: Any, line: str) -> None:
    """Write *view* as JSON, or *line*."""
    if settings.as_json:
        echo_json(view)
    else:
        echo(line)


def echo_list(
    settings: Settings,
    view: Any,
    columns: Columns[T],
    items: Iterable[T],
    *,
    empty: str,
    more: str | None = None,
) -> None:
    """Write *view* as JSON, or the items as a table and the command that shows *more* of them."""
    if settings.as_json:
        echo_json(view)
        return
    echo_table(columns, rows_of(columns, items), empty=empty)
    if more:
        echo(f"more: {more}", err=True)


def rows_of(columns: Columns[T], items: Iterable[T]) -> list[list[object]]:
    """Return the cells of each item."""
    return [[cell(item) for cell in columns.values()] for item in items]


def echo_table(
    columns: Collection[str], rows: Sequence[Sequence[object]], *, empty: str = "nothing here"
) -> None:
    """Write a table; without rows, *empty* on a terminal and only the header in a pipe."""
    if is_terminal():
        if rows:
            screen = console()
            lines = for_terminal(lay_out(columns, rows, screen.width))
            screen.print(*lines, sep="\n", no_wrap=True, crop=False)
        else:
            echo(empty)
        return
    for line in plain_lines(columns, rows):
        echo(line)


def plain_lines(columns: Collection[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table with aligned columns; a cell is always one line."""
    return aligned([list(columns), *([" ".join(clean(c).split()) for c in row] for row in rows)])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


Bar = Callable[[int], None]
"""Moves a progress bar on by so many."""


@contextmanager
def progress_bar(description: str, total: int | None) -> Iterator[Bar]:
    """Show progress on a terminal; *total* is None when it is unknown."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda count: progress.advance(task, count)

"""Answers: tables on a terminal, aligned text in a pipe, JSON when asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from fencepost.cli.lines import clean, echo
from fencepost.core.display import printable_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STATE_STYLES = {
    "pending": "dim",
    "scheduled": "cyan",
    "delayed": "blue",
    "running": "bold yellow",
    "retrying": "magenta",
    "completed": "green",
    "failed": "red",
    "dead_letter": "bold red",
    "cancelled": "dim",
    "ok": "green",
    "note": "cyan",
    "warn": "yellow",
    "fail": "bold red",
    "succeeded": "green",
    "released": "cyan",
    "snoozed": "blue",
    "unreadable": "yellow",
}


def is_terminal() -> bool:
    """Tell whether a person is looking, rather than a program."""
    return sys.stdout.isatty()


def console() -> Console:
    """Return rich's view of the terminal; it honours NO_COLOR by itself."""
    from rich.console import Console

    return Console(highlight=False)


def styled(value: object) -> Text:
    """Return *value* as rich text, in the colour of its state if it is one."""
    from rich.text import Text

    text = clean(value)
    return Text(text, style=STATE_STYLES.get(text, ""))


def when(at: datetime | None) -> str:
    """Return a time as people read it; UTC."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def echo_json(value: Any) -> None:
    """Write *value* as one indented JSON document."""
    encoded = msgspec.json.encode(value)
    click.echo(printable_json(msgspec.json.format(encoded, indent=2).decode()))


def echo_json_line(value: Any) -> None:
    """Write *value* as one line of JSON, for answers that go on."""
    click.echo(printable_json(msgspec.json.encode(value).decode()))


def echo_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str = "nothing here"
) -> None:
    """Write a table; in a pipe, *empty* is left out so that nothing is nothing."""
    if is_terminal():
        if rows:
            console().print(rich_table(columns, rows))
        else:
            echo(empty)
        return
    for line in plain_lines(columns, rows):
        echo(line)


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Any:
    """Return a table for rich."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in columns:
        # An id that is cut cannot be pasted into the next command.
        table.add_column(name, no_wrap=name in ("ID", "JOB"), overflow="fold")
    for row in rows:
        table.add_row(*(styled(cell) for cell in row))
    return table


def plain_lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the table's lines, columns aligned by spaces; a cell is always one line."""
    cells = [list(columns), *([" ".join(clean(c).split()) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


class Bar(Protocol):
    """Long work in progress."""

    def advance(self, count: int) -> None: ...


class _Silent:
    """In a pipe the last line says it all."""

    def advance(self, count: int) -> None:
        pass


class _RichBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: int) -> None:
        self._progress.advance(self._task, count)


@contextmanager
def progress_bar(description: str, total: int | None) -> Iterator[Bar]:
    """Show how long work goes on, on a terminal; *total* None means that nobody knows."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _RichBar(progress, progress.add_task(description, total=total))

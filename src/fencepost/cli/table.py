"""Tables on a terminal of any width: columns without text are left out, and no word is broken.

A cell wraps at its spaces; a name that is too long is cut with an ellipsis. The last column, which
often holds a sentence, goes below its row where there is no room beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from fencepost.core.display import printable

if TYPE_CHECKING:
    from rich.text import Text

GAP = 2
WIDTH_MIN = 12
"""How far a column is narrowed before one is left out."""
SENTENCE_MIN = 40
"""The room that a sentence needs beside its row."""
IN_UTC = " (UTC)"

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


class Cell(NamedTuple):
    """A value that is shorter on a terminal than in a pipe; a column of them is not narrowed."""

    exact: str
    short: str

    @classmethod
    def of(cls, text: str) -> Cell:
        """Return a cell that is the same everywhere."""
        return cls(text, text)

    def __str__(self) -> str:
        return self.exact


def clean(value: object) -> str:
    """Return *value* as one line of printable text, whatever a job put into it."""
    return "" if value is None else printable(str(value))


def styled(value: object) -> Text:
    """Return *value* as rich text, in the colour of its state if it is one."""
    from rich.text import Text

    text = clean(value.short if isinstance(value, Cell) else value)
    return Text(text, style=STATE_STYLES.get(text, ""))


def lay_out(
    columns: Collection[str],
    rows: Sequence[Sequence[object]],
    width: int,
    *,
    is_flat: bool = False,
) -> list[Text]:
    """Return the lines of a table, none wider than *width*; if it *is_flat*, one a row."""
    from rich.text import Text

    cells = [[_collapsed(styled(value)) for value in row] for row in rows]
    kept = [at for at in range(len(columns)) if any(row[at].plain for row in cells)] or [0]
    titles = [
        Text(name.removesuffix(IN_UTC) if _is_short(rows, at) else name, style="bold")
        for at, name in enumerate(columns)
    ]
    widths = {at: max(each[at].cell_len for each in (titles, *cells)) for at in kept}
    soft = {at for at in kept if any(_is_soft(row[at]) for row in rows)}
    last = kept[-1]
    is_sentence = last in soft and not is_flat and widths[last] > WIDTH_MIN
    room = width - sum(widths[at] + GAP for at in kept[:-1])
    below = is_sentence and room < min(widths[last], SENTENCE_MIN)
    if is_sentence and not below:
        widths[last] = min(widths[last], room)
    beside = _fitting([(at, widths[at]) for at in (kept[:-1] if below else kept)], soft, width)
    lines = _lines([[_cut(titles[at], size)] for at, size in beside.items()], beside)
    for row in cells:
        # The first column is not wrapped, so that no line begins with a user's text.
        parts = [
            [_cut(row[at], size)]
            if is_flat or at == kept[0]
            else _wrapped(row[at], size, folds=is_sentence and at == last)
            for at, size in beside.items()
        ]
        lines += _lines(parts, beside)
        if below and row[last].plain:
            lines += [Text(" " * GAP) + each for each in _wrapped(row[last], max(width - GAP, 1))]
    return lines


def _collapsed(text: Text) -> Text:
    """Return *text* without runs of spaces, which could imitate a line of ours."""
    return type(text)(" ".join(text.plain.split()), style=text.style)


def _is_soft(value: object) -> bool:
    """Return whether a column of such values may be narrowed."""
    return isinstance(value, str) and not isinstance(value, Enum)


def _is_short(rows: Sequence[Sequence[object]], at: int) -> bool:
    return any(isinstance(row[at], Cell) for row in rows)


def _fitting(
    columns: Sequence[tuple[int, int]], soft: Collection[int], width: int
) -> dict[int, int]:
    """Return the widths with which columns fit: the widest narrowed, else the last left out."""
    widths = {at: min(size, width) if at in soft else size for at, size in columns}
    while sum(widths.values()) + GAP * (len(widths) - 1) > width:
        wide = [at for at in widths if at in soft and widths[at] > WIDTH_MIN]
        if not wide:
            return _fitting(columns[:-1], soft, width) if columns[1:] else {columns[0][0]: width}
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _lines(parts: Sequence[Sequence[Text]], widths: dict[int, int]) -> list[Text]:
    """Return the lines of a row whose cells have these lines."""
    from rich.text import Text

    lines = []
    for cells in zip_longest(*parts):
        line = Text()
        for cell, width in zip(cells, widths.values(), strict=True):
            line += cell or Text()
            line.pad_right(width + GAP - (cell.cell_len if cell else 0))
        line.rstrip()
        lines.append(line)
    return lines


def _cut(text: Text, width: int) -> Text:
    text = text.copy()
    text.truncate(width, overflow="ellipsis")
    return text


def _wrapped(text: Text, width: int, *, folds: bool = True) -> list[Text]:
    """Return *text* in lines that end at spaces; a word that is too long is folded or cut."""
    from rich.console import Console

    if text.cell_len <= width:
        return [text]
    lines = list(text.wrap(Console(), width, overflow="fold" if folds else "ellipsis"))
    for line in lines:
        line.rstrip()
    return lines

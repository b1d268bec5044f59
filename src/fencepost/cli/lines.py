"""Lines for terminals and pipes, which what is stored can neither steer nor begin.

Names, messages and whatever else came from those who use the queue is written through here. The
linter's part is done by ``tests/cli/test_hostile.py``: no command calls ``click.echo`` itself.
"""

from __future__ import annotations

import click

from fencepost.core.display import printable


def clean(value: object) -> str:
    """Return *value* as one line of printable text, whatever a job put into it."""
    return "" if value is None else printable(str(value))


def clean_lines(text: str) -> list[str]:
    """Return the lines of a text that has some by right, such as a traceback; indent them."""
    return [clean(line) for line in text.split("\n")]


def echo(line: object = "", *, err: bool = False) -> None:
    """Write one line."""
    click.echo(clean(line), err=err)

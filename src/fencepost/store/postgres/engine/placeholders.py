"""The parameters of a statement, which plans write as ``%s``."""

from __future__ import annotations

import re
from collections.abc import Callable

_PLACEHOLDER = re.compile(r"(%.)", re.DOTALL)


def placed(sql: str, mark: Callable[[int], str]) -> str:
    """Return *sql* with ``mark(1)``, ``mark(2)`` … for each %s, and % for each %%."""
    pieces = _PLACEHOLDER.split(sql)
    count = 0
    for index in range(1, len(pieces), 2):
        if pieces[index] == "%%":
            pieces[index] = "%"
        else:
            assert pieces[index] == "%s", f"{pieces[index]!r} is not a placeholder, in {sql!r}"
            count += 1
            pieces[index] = mark(count)
    return "".join(pieces)


def numbered(sql: str) -> str:
    """Return *sql* with $1, $2 … for each %s, as the server reads it."""
    return placed(sql, "${}".format)

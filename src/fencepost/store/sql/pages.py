"""Pages of lists that are read by position."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.store.plan import Row


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], int | None]:
    """Return a page of *rows* and the position after which the next begins; None at the end.

    One row more than wanted has been asked for, which tells whether there is a next page; a row
    begins with its position.
    """
    page = rows[:limit]
    return page, page[-1][0] if len(rows) > len(page) > 0 else None

"""Positions in lists that are read page by page.

On the dead-letter list, one is when a letter died and its number, in one integer.

A position names a place, not a row, so that a page goes on from there whatever has become of the
letter that the page before ended with.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fencepost.core.values.instants import to_us
from fencepost.store.plan import Row

SEQ_BITS = 63
"""As many as the number of a row has at the most."""
FIRST_US = to_us(datetime.min.replace(tzinfo=UTC))
LAST_US = to_us(datetime.max.replace(tzinfo=UTC))


def pack(ended_us: int, seq: int) -> int:
    """Return the position of letter number *seq*, which died at *ended_us*."""
    assert FIRST_US <= ended_us <= LAST_US
    assert 0 < seq < 1 << SEQ_BITS
    return (ended_us - FIRST_US) << SEQ_BITS | seq


def unpack(position: int) -> tuple[int, int]:
    """Return when the letter at *position* died, and its number.

    For what no page gave out, that is the beginning of time: nothing is older.
    """
    ended_us = (position >> SEQ_BITS) + FIRST_US
    if not FIRST_US <= ended_us <= LAST_US:
        return FIRST_US, 0
    return ended_us, position & (1 << SEQ_BITS) - 1


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], int | None]:
    """Return a page of *rows* and the position after which the next begins; None at the end.

    One row more than wanted has been asked for, which tells whether there is a next page; a row
    begins with its position.
    """
    page = rows[:limit]
    return page, page[-1][0] if len(rows) > len(page) > 0 else None

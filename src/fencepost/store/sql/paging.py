"""Positions in lists that are read page by page.

A position in the lists of dead letters and of ended jobs is the time of the end and the number of
the job, in one integer. It names a place, not a row: the next page continues there even if the last
job of the page before has been deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fencepost.core.values.times import to_us
from fencepost.store.plan import Row

SEQ_BITS = 63
"""The bits of the largest number that a row can have."""
LAST_SEQ = (1 << SEQ_BITS) - 1
FIRST_US = to_us(datetime.min.replace(tzinfo=UTC))
LAST_US = to_us(datetime.max.replace(tzinfo=UTC))


def pack(completed_us: int, seq: int) -> int:
    """Return the position of job number *seq*, which ended at *completed_us*."""
    assert FIRST_US <= completed_us <= LAST_US
    assert 0 < seq < 1 << SEQ_BITS
    return (completed_us - FIRST_US) << SEQ_BITS | seq


def unpack(position: int) -> tuple[int, int]:
    """Return when the job at *position* ended, and its number.

    A position that no page returned is the beginning of time, before which there is nothing.
    """
    completed_us = (position >> SEQ_BITS) + FIRST_US
    if not FIRST_US <= completed_us <= LAST_US:
        return FIRST_US, 0
    return completed_us, position & LAST_SEQ


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], int | None]:
    """Return a page of *rows* and the position after which the next begins; None at the end.

    *rows* holds one more than *limit* if there is a next page; a row begins with its position.
    """
    page = rows[:limit]
    return page, page[-1][0] if len(rows) > len(page) > 0 else None

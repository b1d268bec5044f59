"""Positions on the dead-letter list: when a letter died and its number, in one integer.

A position names a place, not a row, so that a page goes on from there whatever has become of the
letter that the page before ended with.
"""

from __future__ import annotations

from datetime import UTC, datetime

from fencepost.core.values.instants import to_us

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

"""Positions on the dead-letter list."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.core.filter import DEAD_LETTERS, decode_cursor, encode_cursor
from fencepost.core.values.times import from_us
from fencepost.store.sql.paging import FIRST_US, LAST_US, SEQ_BITS, pack, unpack

TIMES = st.integers(FIRST_US, LAST_US)
NUMBERS = st.integers(1, (1 << SEQ_BITS) - 1)


@given(TIMES, NUMBERS)
@example(LAST_US, (1 << SEQ_BITS) - 1)
def test_a_position_holds_a_time_and_a_number_and_fits_into_a_cursor(time: int, seq: int) -> None:
    """S3-24."""
    position = pack(time, seq)
    assert unpack(position) == (time, seq)
    assert decode_cursor(encode_cursor(position, DEAD_LETTERS), DEAD_LETTERS) == position


@given(st.integers(0, 10**DEAD_LETTERS.digits_max - 1))
@example(7)
@example(10**DEAD_LETTERS.digits_max - 1)
def test_every_position_is_some_time(position: int) -> None:
    """S3-24: what no page gave out is told so by an empty page, not by an error."""
    time, seq = unpack(position)
    assert from_us(time).tzinfo is not None
    assert 0 <= seq < 1 << SEQ_BITS

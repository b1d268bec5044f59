"""Fencing tokens: ``<seq>.<lane>.<secret of the claim>.<end of the job's id>``.

The secret finds the lease, and the number the job within it, without a look-up by id. A token is
good for nothing but the one job and the one claim (INV-2).
"""

from __future__ import annotations

from typing import NamedTuple

SEQ_END = 1 << 63
LANE_END = 1 << 31
ID_DIGITS = 12


class Fence(NamedTuple):
    """What a token says; seq 0, which no row has, if it is malformed or another job's."""

    seq: int
    lane: int
    secret: str


NOWHERE = Fence(0, 0, "")


def make_token(seq: int, lane: int, secret: str, job_id: str) -> str:
    """Return the token of one job of a claim."""
    return f"{seq:x}.{lane:x}.{secret}.{job_id[-ID_DIGITS:]}"


def read_token(token: str, job_id: str) -> Fence:
    """Return where a token points, if it is *job_id*'s."""
    try:
        seq_digits, lane_digits, secret, id_digits = token.split(".")
        seq, lane = int(seq_digits, 16), int(lane_digits, 16)
    except ValueError:
        return NOWHERE
    if (
        id_digits == job_id[-ID_DIGITS:].lower()
        and len(id_digits) == ID_DIGITS
        and 0 < seq < SEQ_END
        and 0 < lane < LANE_END
        and len(secret) == 32
        and secret.isalnum()
        and secret.isascii()
    ):
        return Fence(seq, lane, secret)
    return NOWHERE

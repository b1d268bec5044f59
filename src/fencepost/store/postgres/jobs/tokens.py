"""Fencing tokens: ``<seq>.<lane>.<secret of the claim>.<end of the job's id>``.

The secret finds the lease, and the number the job within it, without a look-up by id. A token is
good for nothing but the one job and the one claim (INV-2).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

SEQ_END = 1 << 63
LANE_END = 1 << 31
ID_DIGITS = 12
SECRET_DIGITS = 32
HEX_DIGITS = frozenset("0123456789abcdef")


class Fence(NamedTuple):
    """What a token says; seq 0, which no row has, if it is malformed or another job's."""

    seq: int
    lane: int
    secret: str


NOWHERE = Fence(0, 0, "")


def token_mark(lane: int, secret: str) -> str:
    """Return what the tokens of all jobs of a lane share that were claimed together."""
    return f".{lane:x}.{secret}."


def make_token(seq: int, mark: str, job_id: str) -> str:
    """Return the token of one job of a claim."""
    return f"{seq:x}{mark}{job_id[-ID_DIGITS:]}"


def read_token(token: str, job_id: str) -> Fence:
    """Return where a token points, if it is *job_id*'s."""
    try:
        digits, lane_digits, secret, end = token.split(".")
        seq = int(digits, 16)
    except ValueError:
        return NOWHERE
    lane = _lane_of(lane_digits, secret)
    own_end = job_id[-ID_DIGITS:]
    is_own = len(end) == ID_DIGITS and (end == own_end or end == own_end.lower())
    if f"{seq:x}" != digits:  # int() also takes " 1", "0x1" and "1_0"
        return NOWHERE
    return Fence(seq, lane, secret) if lane and is_own and 0 < seq < SEQ_END else NOWHERE


@lru_cache(maxsize=1_000)
def _lane_of(digits: str, secret: str) -> int:
    """Return the lane in the part of a token that all jobs of a claim share; 0 if it is none."""
    try:
        lane = int(digits, 16)
    except ValueError:
        return 0
    # PostgreSQL reads capitals too, but answers in small letters; and it refuses what is no digit.
    is_secret = len(secret) == SECRET_DIGITS and HEX_DIGITS.issuperset(secret)
    return lane if is_secret and 0 < lane < LANE_END and f"{lane:x}" == digits else 0

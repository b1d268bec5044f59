"""The numbers of jobs, as they stand in keys."""

from __future__ import annotations

import struct

import msgspec

_number = struct.Struct(">Q")


def number_text(seq: int) -> bytes:
    """Return the number of a job as it stands in keys: their order is that of the numbers."""
    return _number.pack(seq)


def number_word(text: bytes) -> msgspec.Raw:
    """Return a number as a script's request has it, made once for the many places it is in."""
    return msgspec.Raw(b"\xa8" + text)  # a string of eight bytes


def number_of(text: bytes) -> int:
    number: int = _number.unpack(text)[0]
    return number

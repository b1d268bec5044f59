"""The only source of time, sleep, randomness and ids.

All code gets a ``Clock``. Production uses ``SystemClock``; tests and the simulator pass their own,
so that a run can be replayed. A lint rule bans direct calls elsewhere.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time, randomness and ids, as one injectable value."""

    rng: random.Random

    def now(self) -> datetime:
        """Return the present as an aware UTC time."""
        ...

    def now_us(self) -> int:
        """Return the present in microseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never go back."""
        ...

    def sleep(self, seconds: float) -> None: ...

    async def sleep_async(self, seconds: float) -> None: ...

    def new_id(self) -> bytes:
        """Return the sixteen bytes of a fresh random UUID (version 4)."""
        ...

    def new_ids(self, count: int) -> list[bytes]:
        """Return *count* ids, cheaper than one by one."""
        ...

    def new_token(self) -> str:
        """Return an unguessable string of 22 characters."""
        ...

    def new_bytes(self, count: int) -> bytes:
        """Return *count* unguessable bytes."""
        ...


_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))


def as_uuid4s(raw: bytes) -> list[bytes]:
    """Stamp version and variant on each sixteen of some random bytes."""
    stamped = bytearray(raw)
    stamped[6::16] = stamped[6::16].translate(_VERSION)
    stamped[8::16] = stamped[8::16].translate(_VARIANT)
    whole = bytes(stamped)
    return [whole[start : start + 16] for start in range(0, len(whole), 16)]


def as_uuid4(raw: bytes) -> bytes:
    """Stamp version and variant on sixteen random bytes."""
    return as_uuid4s(raw)[0]


def as_uuid7(raw: bytes, now_us: int) -> bytes:
    """Stamp version, variant and the milliseconds of a time on sixteen random bytes.

    Of two such ids the higher one is the later, by the clocks that made them.
    """
    stamped = bytearray(max(now_us // 1000, 0).to_bytes(6) + as_uuid4(raw)[6:])
    stamped[6] = stamped[6] & 0x0F | 0x70
    return bytes(stamped)


class SystemClock:
    """The machine's clock and the operating system's randomness."""

    def __init__(self) -> None:
        self.rng = random.Random()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def now_us(self) -> int:
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import asyncio  # slow to load for callers that never await

        await asyncio.sleep(seconds)

    def new_id(self) -> bytes:
        return as_uuid4(os.urandom(16))

    def new_ids(self, count: int) -> list[bytes]:
        return as_uuid4s(os.urandom(16 * count))

    def new_token(self) -> str:
        return secrets.token_urlsafe(16)

    def new_bytes(self, count: int) -> bytes:
        return os.urandom(count)

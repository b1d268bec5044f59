"""A process's clock: simulated time, seen a little wrong, and randomness that replays."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from random import Random

from fencepost.clock import as_uuid4, as_uuid4s
from fencepost.core.values.times import from_us, to_us
from lab.simulation.scheduler import Scheduler

START_US = to_us(datetime(2026, 1, 1, tzinfo=UTC))


class SimulatedClock:
    """Satisfies ``fencepost.clock.Clock``."""

    def __init__(
        self, scheduler: Scheduler, seed: str, *, skew: float = 0.0, drift: float = 0.0
    ) -> None:
        self.rng = Random(seed)
        self.skew = skew
        """Seconds by which the wall clock is wrong; it may jump."""
        self._ids = Random(f"ids/{seed}")
        self._scheduler = scheduler
        self._rate = 1.0 + drift

    def now(self) -> datetime:
        return from_us(self.now_us())

    def now_us(self) -> int:
        return START_US + int((self._scheduler.time * self._rate + self.skew) * 1_000_000)

    def monotonic(self) -> float:
        return self._scheduler.time * self._rate

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing may block in a simulation")

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def new_id(self) -> bytes:
        return as_uuid4(self._ids.randbytes(16))

    def new_ids(self, count: int) -> list[bytes]:
        return as_uuid4s(self._ids.randbytes(16 * count))

    def new_token(self) -> str:
        return base64.urlsafe_b64encode(self._ids.randbytes(16)).rstrip(b"=").decode()

    def new_bytes(self, count: int) -> bytes:
        return self._ids.randbytes(count)

"""A clock that moves only on request, and whose randomness can be replayed."""

from __future__ import annotations

import base64
import random
import threading
from datetime import UTC, datetime

from fencepost.clock import as_uuid4
from fencepost.core.values.times import Duration, from_us, parse_duration, seconds_to_us, to_us

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A ``Clock`` for tests: time moves only by ``advance`` and by sleeping, which does not wait.

    Equal starts, seeds and calls give equal times, ids, tokens and jitter: a run replays exactly.
    Threads may share it; which of them gets which id is then up to their scheduling.
    """

    def __init__(self, start: datetime = START, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self._lock = threading.Lock()
        self._start_us = to_us(start)
        self._now_us = self._start_us
        self._set_back_us = 0

    def now(self) -> datetime:
        return from_us(self.now_us())

    def now_us(self) -> int:
        with self._lock:
            return self._now_us

    def monotonic(self) -> float:
        with self._lock:
            return (self._now_us + self._set_back_us - self._start_us) / 1_000_000

    def advance(self, duration: Duration) -> None:
        """Move the time forward, by whatever ``parse_duration`` reads: 1.5, "90s", a timedelta."""
        step = seconds_to_us(parse_duration(duration))
        with self._lock:
            self._now_us += step

    def set_back(self, duration: Duration) -> None:
        """Set the time back, as an operator might; the monotonic clock is not affected."""
        step = seconds_to_us(parse_duration(duration))
        with self._lock:
            self._now_us -= step
            self._set_back_us += step

    def sleep(self, seconds: float) -> None:
        self.advance(max(seconds, 0.0))

    async def sleep_async(self, seconds: float) -> None:
        import asyncio

        self.sleep(seconds)
        # A loop that only sleeps must still let others run.
        await asyncio.sleep(0)  # noqa: TID251 - waits for nothing

    def new_id(self) -> bytes:
        return as_uuid4(self.new_bytes(16))

    def new_ids(self, count: int) -> list[bytes]:
        return [self.new_id() for _ in range(count)]

    def new_token(self) -> str:
        return base64.urlsafe_b64encode(self.new_bytes(16)).rstrip(b"=").decode()

    def new_bytes(self, count: int) -> bytes:
        with self._lock:
            return self.rng.randbytes(count)

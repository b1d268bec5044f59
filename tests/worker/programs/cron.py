"""A worker with a cron, for the tests that kill it; its clock shows a minute every second."""

from __future__ import annotations

import sys
import time
from datetime import datetime

from fencepost import App, Timeouts
from fencepost.clock import SystemClock
from fencepost.core.values.times import from_us

SPEED = 60


class FastClock(SystemClock):
    """The machine's clock, sped up from a moment on that several processes agree upon."""

    def __init__(self, origin: float) -> None:
        super().__init__()
        self._origin = origin

    def now(self) -> datetime:
        return from_us(self.now_us())

    def now_us(self) -> int:
        return round((self._origin + (time.time() - self._origin) * SPEED) * 1_000_000)

    async def sleep_async(self, seconds: float) -> None:
        await super().sleep_async(seconds / SPEED)


def make_app(url: str, origin: float) -> App:
    """Return an app that several processes share, with a cron that ticks once a second."""
    # Ten seconds of the machine's: the leases must not run out while it is busy.
    app = App(url, clock=FastClock(origin), timeouts=Timeouts(lease_ttl=600))

    @app.cron("* * * * *", missed="catch_up", catch_up=1000)
    def tick() -> None: ...

    return app


if __name__ == "__main__":
    make_app(sys.argv[1], float(sys.argv[2])).worker(concurrency=2).run()

"""A worker that is given its own job again, because it had lost the lease without noticing."""

from __future__ import annotations

import asyncio

import pytest
from tests.worker.support import LONG, ended, eventually, working

from fencepost import App, Context, State
from fencepost.worker.run.heartbeater import Heartbeater


async def test_the_attempt_under_the_old_lease_is_interrupted(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-9, S2-32: found by the simulation (stopped past the lease, then first to claim).

    The new lease took the old one's place in hand, so no heartbeat told the old attempt, and two
    handlers ran the same job side by side in one worker until the old one ended by itself.
    """
    monkeypatch.setattr(Heartbeater, "step", lambda self: 60.0)
    seen: list[tuple[int, str | None]] = []

    @app.task(lease_ttl=1)
    async def long(ctx: Context) -> str:
        if ctx.attempt > 1:
            await eventually(lambda: seen)
            return "done"
        try:
            await asyncio.sleep(LONG)
        finally:
            seen.append((ctx.attempt, ctx.cancel_reason))
        return "too late"

    job = long.submit()
    async with working(app, concurrency=2):
        found = await ended(job)
    assert seen == [(1, "lease_lost")]
    assert (found.state, found.attempt) == (State.COMPLETED, 2)
    assert app.session.counters.get("lease.lost", reason="lease_lost") == 1
    assert app.session.counters.get("stale.ack") == 0

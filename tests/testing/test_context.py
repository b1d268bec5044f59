"""``FakeContext``: a context for handlers that are called as functions."""

from __future__ import annotations

import pytest

from fencepost import App, ConfigurationError, Context, NewJob
from fencepost.testing import FakeContext


def test_a_handler_is_called_as_the_function_it_is() -> None:
    app = App("memory://")

    @app.task
    def copy(pages: int, ctx: Context) -> int:
        for page in range(ctx.last_checkpoint or 0, pages):
            ctx.progress(page / pages, f"page {page}")
            ctx.checkpoint(page + 1)
        return ctx.attempt

    ctx = FakeContext(attempt=2, last_checkpoint=1)
    assert copy(3, ctx) == 2
    assert ctx.checkpoints == [2, 3]
    assert ctx.progresses == [(1 / 3, "page 1"), (2 / 3, "page 2")]


async def test_the_async_face_is_remembered_too() -> None:
    ctx = FakeContext()
    await ctx.aio.checkpoint({"page": 1})
    await ctx.aio.progress(0.5)
    await ctx.aio.complete_in("a connection", 7)
    assert (ctx.checkpoints, ctx.progresses, ctx.completions) == ([{"page": 1}], [(0.5, "")], [7])


def test_it_says_what_it_was_told_to() -> None:
    ctx = FakeContext(
        type="pay",
        queue="money",
        attempt=3,
        max_attempts=9,
        idempotency_key="order:7",
        correlation_id="c",
        tags={"tenant": "7"},
        cancel_reason="shutdown",
    )
    assert (ctx.type, ctx.queue, ctx.attempt, ctx.max_attempts) == ("pay", "money", 3, 9)
    assert (ctx.idempotency_key, ctx.correlation_id, ctx.tags) == ("order:7", "c", {"tenant": "7"})
    assert ctx.cancelled
    assert ctx.cancel_reason == "shutdown"
    assert ctx.attempt_id == f"{ctx.job_id}.3"
    assert ctx.last_checkpoint is None
    assert ctx.deadline > ctx.lease.expires_at


def test_what_a_real_context_refuses_it_refuses() -> None:
    ctx = FakeContext()
    with pytest.raises(ConfigurationError):
        ctx.progress(2)
    assert ctx.progresses == []


def test_what_is_spawned_is_remembered_and_found_again() -> None:
    ctx = FakeContext(dependency_results={"extract": [1, 2]})
    assert ctx.dependency_results["extract"] == [1, 2]
    first = ctx.spawn(NewJob(type="page"), NewJob(type="page"))
    assert [job.type for job in ctx.spawned] == ["page", "page"]
    assert len(set(first)) == 2
    with pytest.raises(TypeError):
        ctx.dependency_results["extract"] = []  # type: ignore[index]  # it is read-only


async def test_what_is_spawned_by_the_async_face_is_remembered_too() -> None:
    ctx = FakeContext()
    assert await ctx.aio.spawn() == []
    (spawned,) = await ctx.aio.spawn(NewJob(type="page"))
    assert [job.type for job in ctx.spawned] == ["page"]
    assert spawned != ctx.job_id

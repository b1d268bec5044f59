"""What a handler is told about its job, and what it can say back."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from tests.worker.support import drain, ended, eventually, working

import fencepost
from fencepost import App, ConfigurationError, Context, Job, StaleLeaseError, State
from fencepost.core.job.job import Lease
from fencepost.worker import AsyncContext

pytestmark = pytest.mark.usefixtures("never_late")


async def test_a_handler_is_told_all_about_its_attempt(app: App) -> None:
    """S1-75, S1-76, S1-77, S1-100, S1-107, S1-108."""
    told: dict[str, Any] = {}

    @app.task(queue="mail", timeout=60)
    async def look(ctx: Context) -> None:
        told.update({name: getattr(ctx, name) for name in dir(ctx) if not name.startswith("_")})

    before = datetime.now(UTC)
    using = look.using(key="k1", tags={"tenant": "7"}, correlation_id="c1")
    job = using.submit()
    await drain(app, lease_ttl=20)
    after = datetime.now(UTC)
    expected = {
        "job_id": job.id,
        "type": "look",
        "queue": "mail",
        "attempt": 1,
        "max_attempts": 3,
        "attempt_id": job.attempts()[0].id,
        "previous_attempt_id": None,
        "idempotency_key": "k1",
        "correlation_id": "c1",
        "tags": {"tenant": "7"},
        "cancelled": False,
        "cancel_reason": None,
        "last_checkpoint": None,
    }
    assert {name: told[name] for name in expected} == expected
    assert before + timedelta(seconds=59) < told["deadline"] < after + timedelta(seconds=61)
    assert told["lease"].version == job.attempts()[0].lease_version
    assert len(told["lease"].token) >= 22
    lifetime = told["lease"].expires_at - before
    assert timedelta(seconds=19) < lifetime < after - before + timedelta(seconds=21)


async def test_each_attempt_has_its_own_id_linked_to_the_one_before(app: App) -> None:
    """S1-3, S1-75, S1-77, S1-78: the job's id stays, the attempts' ids form a chain."""
    seen = []

    @app.task
    async def flaky(ctx: Context) -> None:
        seen.append((ctx.job_id, ctx.attempt, ctx.attempt_id, ctx.previous_attempt_id))
        if ctx.attempt < 3:
            raise ValueError

    job = flaky.submit()
    async with working(app):
        await job.aio.result(10)
    assert [(each[0], each[1]) for each in seen] == [(job.id, 1), (job.id, 2), (job.id, 3)]
    assert [each[3] for each in seen] == [None, seen[0][2], seen[1][2]]
    assert [(a.id, a.previous_id) for a in job.attempts()] == [(e[2], e[3]) for e in seen]


@pytest.mark.parametrize("kind", ["async", "async aio", "def"])
async def test_the_next_attempt_resumes_from_the_checkpoint(app: App, kind: str) -> None:
    """S1-58."""

    def start(ctx: Context) -> list[int]:
        done: list[int] = ctx.last_checkpoint or []
        return [*done, len(done)]

    async def in_coroutine(ctx: Context) -> list[int]:
        done = start(ctx)
        if kind == "async aio":
            await ctx.aio.checkpoint(done)
        else:
            ctx.checkpoint(done)
        if len(done) < 3:
            raise RuntimeError("interrupted")
        return done

    def in_thread(ctx: Context) -> list[int]:
        done = start(ctx)
        ctx.checkpoint(done)
        if len(done) < 3:
            raise RuntimeError("interrupted")
        return done

    task = app.task(name="resume")(in_thread if kind == "def" else in_coroutine)
    job = task.submit()
    async with working(app):
        assert await job.aio.result(10) == [0, 1, 2]


async def test_progress_is_seen_while_the_job_runs(app: App) -> None:
    go_on = asyncio.Event()

    @app.task
    async def long(ctx: Context) -> None:
        ctx.progress(0.25)
        await ctx.aio.progress(0.5, "x" * 1_000)
        await go_on.wait()

    job = long.submit()
    async with working(app):
        await eventually(lambda: (p := job.refresh().progress) and p["fraction"] > 0.3)
        progress = job.refresh().progress
        assert job.refresh().state is State.RUNNING
        go_on.set()
        await job.aio.result(10)
    assert progress is not None
    assert (progress["fraction"], progress["message"]) == (0.5, "x" * 500)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
async def test_absurd_progress_is_refused(app: App, fraction: float) -> None:
    raised = []

    @app.task
    async def confused(ctx: Context) -> None:
        with pytest.raises(ConfigurationError) as caught:
            ctx.progress(fraction)
        raised.append(caught.value)

    job = confused.submit()
    await drain(app)
    assert len(raised) == 1
    assert job.refresh().progress is None


@pytest.mark.parametrize("write", ["checkpoint", "progress"])
async def test_a_handler_without_its_lease_can_save_nothing(app: App, write: str) -> None:
    """S0-48, S0-49, S0-78, S2-35: it is told so with StaleLeaseError, code stale_lease."""
    started, go_on = asyncio.Event(), asyncio.Event()
    raised = []

    @app.task
    async def save(ctx: Context) -> None:
        started.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            try:
                await getattr(ctx.aio, write)(0.5)
            except StaleLeaseError as error:
                raised.append(error)
            raise

    job = save.submit()
    async with working(app, lease_ttl=1):
        await started.wait()
        job.cancel()
        await eventually(lambda: raised)
    assert (raised[0].code, raised[0].job_id) == ("stale_lease", job.id)
    found = job.refresh()
    assert (found.state, found.checkpoint_body, found.progress) == (State.CANCELLED, None, None)
    assert app.session.counters.get("stale.save") == 1


async def test_the_lease_that_a_handler_sees_moves_with_each_heartbeat(app: App) -> None:
    """S0-79, S0-80, S0-81, S2-32, C18: now + ttl, under the same token and version."""
    leases: list[Lease] = []
    seen_at: list[datetime] = []
    stored: list[Job] = []

    @app.task
    async def long(ctx: Context) -> None:
        while len(leases) < 4:
            if ctx.lease not in leases:
                leases.append(ctx.lease)
                seen_at.append(datetime.now(UTC))
                stored.append(job.refresh())
            await asyncio.sleep(0.01)

    job = long.submit()
    async with working(app, lease_ttl=1):
        assert (await ended(job)).state is State.COMPLETED
    assert len({(lease.token, lease.version) for lease in leases}) == 1
    ttl = timedelta(seconds=1)
    created_at = job.refresh().created_at
    for number, lease in enumerate(leases):
        # A beat is sent a third of the TTL after the one before, and never before that.
        earliest = created_at + number * ttl / 3
        assert earliest + ttl <= lease.expires_at <= seen_at[number] + ttl
        in_store = stored[number].lease
        assert in_store is not None
        assert in_store.expires_at >= lease.expires_at


async def test_a_handlers_log_lines_carry_the_jobs_ids(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """S1-108."""

    @app.task
    async def talk(ctx: Context) -> None:
        ctx.log("half way", step=3, id="order-7", level="deep", type=None)

    job = talk.using(correlation_id="c9").submit()
    with caplog.at_level(logging.INFO, logger="fencepost"):
        await drain(app)
    [record] = [
        each for each in caplog.records if vars(each).get("fencepost_event") == "handler.log"
    ]
    fields = vars(record)["fencepost_fields"]
    assert fields == {
        "message": "half way",
        "id": job.id,
        "type": "talk",
        "attempt": 1,
        "correlation_id": "c9",
        "step": 3,
        "id_": "order-7",
        "level_": "deep",
        "type_": None,
    }


def test_a_plain_call_takes_any_context(app: App) -> None:
    """A task is still a function: whoever calls it gives what it asks for."""

    @app.task
    def add(ctx: Context, a: int, b: int) -> int:
        assert str(ctx) == "mine"
        return a + b

    assert add(cast("Context", "mine"), 1, 2) == 3
    assert app.jobs.count() == 0


def test_a_context_holds_one_private_value_and_no_module_reaches_into_it() -> None:
    """What the worker has to know of an attempt is in its ``AttemptState``."""
    assert Context.__slots__ == AsyncContext.__slots__ == ("_actions",)
    root = Path(fencepost.__file__).parent
    reaching = re.compile(r"\b(ctx|context)\._[a-z]")
    found = [path for path in root.rglob("*.py") if reaching.search(path.read_text())]
    assert found == []

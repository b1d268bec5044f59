"""Where a handler is crashed, one kind of point after the other.

Each handler is safe at all points but the one in question.
"""

from __future__ import annotations

import asyncio

from tests.testing.idempotency.bank import TWICE, Bank, found

from fencepost import App, Context, Retry, TemporaryError
from fencepost.testing import check_idempotent


def test_an_effect_before_its_checkpoint_is_caught_between_the_two(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            bank.charge(order, 100)
            ctx.checkpoint("charged")

    report = check_idempotent(pay, 7, effects=[bank.charge], report=True)
    assert found(report) == {(TWICE, "after charge"), (TWICE, "before checkpoint")}
    assert not report.ok
    assert report.doubles == report.flaws
    assert report.losses == []


def test_an_effect_after_its_checkpoint_is_lost(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            ctx.checkpoint("charged")
            bank.charge(order, 100)

    report = check_idempotent(pay, 7, effects=[bank.charge], report=True)
    lost = "charge(7, 100) happened 0 times instead of 1"
    assert found(report) == {(lost, "after checkpoint"), (lost, "before charge")}
    assert report.losses == report.flaws
    assert report.doubles == []


def test_an_acknowledgement_that_is_lost_runs_the_handler_again(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int) -> None:
        bank.charge(order, 100)

    report = check_idempotent(pay, 7, effects=[bank.charge], report=True)
    assert found(report) == {(TWICE, "after charge"), (TWICE, "after its end")}


def test_a_record_without_a_point_of_its_own_is_read_at_the_others(app: App, bank: Bank) -> None:
    charges = bank.charges

    @app.task
    def pay(order: int, ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            charges.append((order, 100))
            ctx.checkpoint("charged")

    report = check_idempotent(pay, 7, effects=[charges], report=True)
    what = "(7, 100) in charges happened 2 times instead of 1"
    assert found(report) == {(what, "before checkpoint")}
    assert charges == []


def test_a_job_submitted_without_a_key_is_caught(app: App) -> None:
    @app.task
    def notify(order: int) -> None: ...

    @app.task
    def pay(order: int) -> None:
        notify.submit(order)

    report = check_idempotent(pay, 7, report=True)
    what = "submit notify(order=7) happened 2 times instead of 1"
    assert found(report) == {(what, "after submit"), (what, "after its end")}

    @app.task
    def pay_safely(order: int) -> None:
        notify.using(key=f"order:{order}").submit(order)

    assert check_idempotent(pay_safely, 7).ok


async def test_a_job_submitted_by_a_coroutine_is_caught(app: App) -> None:
    @app.task
    def notify(order: int) -> None: ...

    @app.task
    async def pay(order: int) -> None:
        await notify.aio.submit(order)
        await app.aio.submit_many([notify.prepare(order + 1)])

    report = await check_idempotent.aio(pay, 7, report=True)
    first = "submit notify(order=7) happened 2 times instead of 1"
    second = "submit notify(order=8) happened 2 times instead of 1"
    assert {(first, "after submit"), (second, "after submit")} <= found(report)
    assert {(first, "after its end"), (second, "after its end")} <= found(report)
    assert (first, "before submit") in found(report)  # before the second one
    assert not any(what == second and "before" in when for what, when in found(report))


def test_each_await_is_a_point(app: App, bank: Bank) -> None:
    """The handler remembers its charge outside the job, right after an await: a moment too late."""
    done: set[int] = set()

    @app.task
    async def pay(order: int) -> None:
        if order not in done:
            bank.charges.append((order, 100))
            await asyncio.sleep(0)
            done.add(order)

    report = check_idempotent(pay, 7, effects=[bank.charges, done], report=True)
    what = "(7, 100) in effects[0] happened 2 times instead of 1"
    assert found(report) == {(what, "after an await")}
    assert "await asyncio.sleep(0)" in report.doubles[0].point.source
    assert done == set()


def test_an_await_inside_of_what_the_handler_calls_is_a_point(app: App, bank: Bank) -> None:
    @app.task
    async def pay(order: int, ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            await bank.charge_async(order)
            await ctx.aio.checkpoint("charged")

    report = check_idempotent(pay, 7, effects=[bank.charge_async], report=True)
    what = "charge_async(7) happened 2 times instead of 1"
    assert found(report) == {
        (what, "after an await"),  # cut short: nobody knows whether the bank had it
        (what, "after charge_async"),
        (what, "before checkpoint"),
    }


def test_progress_and_looks_at_jobs_are_points(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        ctx.progress(0.5)
        app.jobs.count()

    moments = [point.moment for point in check_idempotent(pay, 7).points]
    assert moments == ["before progress", "after progress", "before count", "after its end"]


def test_effects_in_threads_and_tasks_of_the_handler_are_points(app: App, bank: Bank) -> None:
    @app.task
    async def pay(order: int, ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            await asyncio.to_thread(bank.charge, order, 100)
            await asyncio.gather(bank.charge_async(order), return_exceptions=True)
            await ctx.aio.checkpoint("charged")

    report = check_idempotent(pay, 7, effects=[bank.charge, bank.charge_async], report=True)
    assert {what for what, _ in found(report)} == {
        TWICE,
        "charge_async(7) happened 2 times instead of 1",
    }
    assert (TWICE, "after charge") in found(report)


def test_a_handler_that_fails_and_retries_is_crashed_in_every_attempt(app: App, bank: Bank) -> None:
    @app.task(retry=Retry(max_attempts=2))
    def pay(order: int, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise TemporaryError("busy")
        bank.charge(order, 100)

    report = check_idempotent(pay, 7, effects=[bank.charge], report=True)
    assert found(report) == {(TWICE, "after charge"), (TWICE, "after its end")}

"""What is safe passes, and the dead do nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.testing.idempotency.bank import Bank, found

from fencepost import App, Context, Retry, Snooze, TemporaryError
from fencepost.testing import NotIdempotentError, check_idempotent, effect


def test_a_key_that_is_the_same_in_every_attempt_is_safe(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        bank.charge(order, 100, key=ctx.job_id)

    @app.task
    def pay_wrongly(order: int, ctx: Context) -> None:
        bank.charge(order, 100, ctx.attempt_id)

    keyed = effect(bank, "charge", key="key")
    report = check_idempotent(pay, 7, effects=[keyed])
    assert report.ok
    assert len(report.points) == 3
    assert str(report) == "pay(7) is idempotent: 3 crashes did no harm"
    with pytest.raises(NotIdempotentError, match="happened 2 times"):
        check_idempotent(pay_wrongly, 7, effects=[keyed])
    assert check_idempotent(
        pay_wrongly, 7, effects=[effect(bank, "charge", key=lambda order, *_: order)]
    ).ok
    with pytest.raises(AssertionError, match="no argument called 'order_id'"):
        check_idempotent(pay, 7, effects=[effect(bank.charge, key="order_id")])


def test_a_completion_in_the_handlers_own_transaction_is_safe(app: App, bank: Bank) -> None:
    @contextmanager
    def transaction() -> Iterator[list[tuple[int, int]]]:
        rows: list[tuple[int, int]] = []
        yield rows
        bank.charges.extend(rows)

    @app.task
    def pay(order: int, ctx: Context) -> None:
        with transaction() as rows:
            rows.append((order, 100))
            ctx.complete_in(rows)

    report = check_idempotent(pay, 7, effects=[bank.charges])
    assert [point.moment for point in report.points][:2] == [
        "before complete_in",
        "before complete_in",
    ]


async def test_the_same_holds_for_the_async_face(app: App, bank: Bank) -> None:
    @asynccontextmanager
    async def transaction() -> AsyncIterator[list[tuple[int, int]]]:
        rows: list[tuple[int, int]] = []
        yield rows
        bank.charges.extend(rows)

    @app.task
    async def pay(order: int, ctx: Context) -> None:
        async with transaction() as rows:
            rows.append((order, 100))
            await ctx.aio.complete_in(rows)

    assert (await check_idempotent.aio(pay, 7, effects=[bank.charges])).ok


def test_an_effect_may_carry_what_differs_by_attempt(app: App, bank: Bank) -> None:
    @app.task
    def log(order: int, ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            ctx.checkpoint(f"by attempt {ctx.attempt}")

    @app.task
    def pay(order: int, ctx: Context) -> None:
        bank.charge(order, ctx.attempt, key=ctx.job_id)

    assert check_idempotent(log, 7).ok
    assert check_idempotent(pay, 7, effects=[effect(bank.charge, key="key")]).ok


def test_a_repair_that_only_a_second_attempt_makes_is_no_double(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        if ctx.attempt > 1:
            bank.refund(order)
        bank.charge(order, 1, key=ctx.job_id)

    effects = [bank.refund, effect(bank.charge, key="key")]
    report = check_idempotent(pay, 7, effects=[Bank.refund, *effects[1:]])
    assert report.ok


def test_a_call_that_was_refused_is_no_effect(app: App, bank: Bank) -> None:
    def refuse(order: int) -> None:
        if order:
            raise TemporaryError("declined")

    bank.refund = refuse  # type: ignore[method-assign]

    @app.task(retry=Retry(max_attempts=3))
    def pay(order: int, ctx: Context) -> None:
        if ctx.attempt < 3:
            bank.refund(order)

    assert check_idempotent(pay, 7, effects=[effect(bank, "refund")]).ok


def test_a_snoozing_handler_lives_on(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            ctx.checkpoint("asked")
            raise Snooze("1h")

    assert check_idempotent(pay, 7).ok


def test_a_handler_that_submits_its_own_type_is_not_mistaken_for_its_job(app: App) -> None:
    @app.task
    def walk(depth: int) -> None:
        if depth:
            walk.using(key=f"walk:{depth}").submit(depth - 1)

    assert check_idempotent(walk, 3).ok


# The dead do nothing.


def test_what_runs_in_a_finally_after_the_crash_does_not_happen(app: App, bank: Bank) -> None:
    @app.task
    def notify(order: int) -> None: ...

    @app.task
    def pay(order: int, ctx: Context) -> None:
        try:
            bank.charge(order, 100, key=ctx.job_id)
        finally:
            notify.using(key=f"n:{order}").submit(order)
            bank.refund(order)

    report = check_idempotent(
        pay, 7, effects=[effect(bank, "charge", key="key"), effect(bank, "refund")], report=True
    )
    assert found(report) == {
        ("refund(7) happened 2 times instead of 1", "after refund"),
        ("refund(7) happened 2 times instead of 1", "after its end"),
    }


def test_a_handler_that_swallows_everything_is_dead_all_the_same(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        for _ in range(3):
            try:
                bank.charge(order, 100, key=ctx.job_id)
            except BaseException:  # noqa: BLE001 - the point of this test
                continue

    @app.task
    async def pay_async(order: int, ctx: Context) -> None:
        for _ in range(3):
            try:
                await bank.charge_async(order)
            except BaseException:  # noqa: BLE001
                continue

    assert check_idempotent(pay, 7, effects=[effect(bank, "charge", key="key")]).ok
    report = check_idempotent(pay_async, 7, effects=[bank.charge_async], report=True)
    assert all(flaw.times <= 6 for flaw in report.flaws)
    assert report.flaws


def test_tasks_that_the_handler_started_die_with_it(app: App, bank: Bank) -> None:
    async def later(order: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        bank.charges.append((order, 1))

    @app.task
    async def pay(order: int, ctx: Context) -> None:
        task = asyncio.create_task(later(order))
        await asyncio.sleep(0)
        await task

    report = check_idempotent(pay, 7, effects=[bank.charges], report=True)
    # Only once its task has written does a crash double it.
    assert 0 < len(report.doubles) < len(report.points)

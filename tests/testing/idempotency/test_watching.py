"""Where functions are found, watched and given back."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from tests.testing.idempotency.bank import Bank

from fencepost import App, ConfigurationError, Context
from fencepost.testing import check_idempotent, effect


def module_level(order: int) -> None:
    """A function that handlers call by its global name."""


class Courier:
    def send(self, order: int) -> None: ...


def test_functions_are_watched_wherever_the_handler_finds_them(app: App, bank: Bank) -> None:
    def local(order: int) -> None: ...

    courier = Courier()

    @app.task
    def pay(order: int) -> None:
        module_level(order)
        local(order)
        Bank.refund(order)
        Bank.audit(order)
        courier.send(order)
        threading.get_ident()

    before = (local, module_level, Bank.__dict__["refund"], vars(courier).copy())
    name = f"{module_level.__module__}.module_level"
    report = check_idempotent(
        pay,
        7,
        effects=[module_level, local, effect(Bank, "refund"), effect(Bank, "audit"), Courier.send],
        report=True,
    )
    assert {flaw.effect for flaw in report.doubles} == {
        "module_level(7)",
        "local(7)",
        "refund(7)",
        "audit(7)",
        "send(7)",
    }
    assert (local, module_level, Bank.__dict__["refund"], vars(courier)) == before
    by_name = check_idempotent(pay, 7, effects=[name, "threading.get_ident"], report=True)
    assert {flaw.effect for flaw in by_name.doubles} == {"module_level(7)", "get_ident()"}


def test_mocks_are_watched_and_stay_mocks(app: App) -> None:
    provider = Mock()
    provider.fetch = AsyncMock(return_value=5)
    send = Mock()

    @app.task
    async def pay(order: int) -> None:
        assert await provider.fetch(order) == 5
        provider.charge(order)
        send(order)

    effects = [effect(provider, "charge"), effect(provider, "fetch"), send]
    report = check_idempotent(pay, 7, effects=effects, report=True)
    assert {flaw.effect for flaw in report.doubles} == {"fetch(7)", "charge(7)", "Mock(7)"}
    provider.reset_mock()
    provider.charge(1)
    provider.charge.assert_called_once_with(1)
    calls = check_idempotent(pay, 7, effects=[send.call_args_list], report=True)
    assert {flaw.effect for flaw in calls.doubles} == {"call(7) in effects[0]"}


def test_an_event_that_a_handler_sends_is_watched_like_a_submission(app: App) -> None:
    """S3-16: without a key a second run sends it again, with one it does not."""

    @app.event("order.paid").on
    def ship(order: int) -> None: ...

    @app.task
    def careless(order: int) -> None:
        app.event("order.paid").send(order=order)

    @app.task
    def careful(order: int) -> None:
        app.event("order.paid").send_idempotent(f"order:{order}", order=order)

    report = check_idempotent(careless, 7, report=True)
    assert {flaw.effect for flaw in report.doubles} == {"submit ship(order=7)"}
    assert check_idempotent(careful, 7, report=True).doubles == []


@pytest.mark.parametrize(
    ("effects", "message"),
    [
        (["no.such.function"], "no function is called 'no.such.function'"),
        (["fencepost.testing.nothing"], "no function is called"),
        ([7], "cannot watch 7"),
        ([lambda: None], "cannot find where"),
        ([[].append], "give the record that it keeps"),
        ("charge", "effects must be a list"),
        ([effect(Bank, "nothing")], "has no 'nothing' to watch"),
    ],
)
def test_what_cannot_be_watched_is_refused(app: App, effects: Any, message: str) -> None:
    @app.task
    def pay(order: int) -> None: ...

    with pytest.raises(ConfigurationError, match=message):
        check_idempotent(pay, 7, effects=effects)


def test_a_handler_that_spawns_is_idempotent_by_itself(app: App) -> None:
    """What an attempt that crashed has spawned, the next one finds."""

    @app.task
    def leaf(number: int) -> None: ...

    @app.task
    def brood(ctx: Context, count: int) -> None:
        ctx.spawn(*(leaf.prepare(0) for _ in range(count)))
        ctx.spawn(leaf.prepare(1))

    @app.task
    def submitting() -> None:
        leaf.submit(1)

    assert not check_idempotent(brood, 2, report=True).doubles
    assert check_idempotent(submitting, report=True).doubles
    waiting = brood.using(after="0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77")
    assert not check_idempotent(waiting, 2, report=True).doubles

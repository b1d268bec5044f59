"""Other harm than doubles, and how it is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.testing.idempotency.bank import Bank, found

from fencepost import App, ConfigurationError, Context, Retry
from fencepost.testing import NotIdempotentError, check_idempotent
from fencepost.testing.idempotency import Flaw
from fencepost.testing.idempotency.check import Damage


def test_a_handler_that_cannot_go_on_after_a_crash_is_caught(app: App) -> None:
    @app.task
    def notify(order: int) -> None: ...

    @app.task(retry=Retry(max_attempts=2))
    def pay(order: int) -> None:
        notify.submit_idempotent(f"order:{order}", order)

    report = check_idempotent(pay, 7, report=True)
    assert {flaw.kind for flaw in report.flaws} == {Damage.FAILURE}
    assert "DuplicateJobError" in report.flaws[0].effect
    assert "the job did not complete" in str(report)


def test_a_state_that_differs_is_caught(app: App, bank: Bank) -> None:
    paid: dict[int, int] = {}

    def reset() -> None:
        bank.balance = 0

    @app.task
    def pay(order: int, ctx: Context) -> None:
        bank.balance += 100
        paid[order] = paid.get(order, 0) + 1
        ctx.progress(0.5)

    report = check_idempotent(
        pay, 7, effects=[paid], state=lambda: bank.balance, setup=reset, report=True
    )
    assert ("paid became {7: 2} instead of {7: 1}", "after progress") in found(report)
    assert ("the state became 200 instead of 100", "before progress") in found(report)
    assert {flaw.kind for flaw in report.flaws} == {Damage.DIFFERENCE}
    assert (bank.balance, paid) == (0, {})


def test_a_handler_that_fails_by_itself_is_said_so(app: App) -> None:
    @app.task(retry=Retry.none())
    def pay(order: int) -> None:
        raise KeyError(order)

    with pytest.raises(AssertionError, match="fails without any crash: KeyError: 7") as caught:
        check_idempotent(pay, 7)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_world_that_is_not_put_back_is_said_so(app: App, bank: Bank) -> None:
    """Else nothing would happen in the second run, and nothing be found."""
    done: set[int] = set()

    @app.task
    def pay(order: int) -> None:
        if order not in done:
            done.add(order)
            bank.charge(order, 100)

    with pytest.raises(AssertionError, match=r"does not do the same twice(?s:.*)setup="):
        check_idempotent(pay, 7, effects=[bank.charge])
    report = check_idempotent(pay, 7, effects=[bank.charge], setup=done.clear, report=True)
    assert report.losses


def test_too_many_points_are_refused(app: App) -> None:
    @app.task
    def crawl(pages: int, ctx: Context) -> None:
        for page in range(pages):
            ctx.checkpoint(page)

    with pytest.raises(ConfigurationError, match="2,001 points"):
        check_idempotent(crawl, 1_000)


# Reporting.


def test_the_error_says_what_where_and_what_next(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        bank.charge(order, 100)
        ctx.checkpoint("charged")

    with pytest.raises(NotIdempotentError) as caught:
        check_idempotent(pay, order=7, effects=[bank.charge])
    report = caught.value.report
    text = str(caught.value)
    assert isinstance(caught.value, AssertionError)
    assert text == str(report)
    assert text.startswith("pay(order=7) is not idempotent: 4 of 5 crashes did harm\n")
    point = report.doubles[0].point
    assert point.file == __file__
    assert point.source == "bank.charge(order, 100)"
    assert f"test_report.py:{point.line}  bank.charge(order, 100)" in text
    assert "-> give it a key" in text
    last = report.points[-1]
    assert (last.moment, last.source) == (
        "after its end",
        "def pay(order: int, ctx: Context) -> None:",
    )


def test_a_long_report_is_cut(app: App, bank: Bank) -> None:
    @app.task
    def pay(order: int, ctx: Context) -> None:
        bank.charge(order, 100)
        for step in range(9):
            ctx.checkpoint(step)

    report = check_idempotent(pay, 7, effects=[bank.charge], report=True)
    assert "and at 15 more points" in str(report)
    assert [f.advice for f in report.flaws] == [report.flaws[0].advice] * 20


def test_every_kind_of_flaw_has_its_words(app: App) -> None:
    @app.task
    def pay() -> None: ...

    (point,) = check_idempotent(pay).points
    words: set[Callable[[Flaw], str] | str] = set()
    for kind in Damage:
        flaw = Flaw(kind, "it", 2, 1, point)
        words |= {str(flaw), flaw.advice}
    assert len(words) >= 7

"""Plans and the two runners that drive them, without any store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.generators import drive, drive_async
from fencepost.store.interface.facet import Facet, operation, planned
from fencepost.store.plan import (
    Effect,
    Operation,
    Plan,
    Row,
    Statement,
)


class Engine:
    """Answers statements from a table, and notes them; as blocking or awaited."""

    def __init__(self, answers: dict[str, list[Row] | Exception]) -> None:
        self.answers = answers
        self.asked: list[Statement] = []

    def execute(self, statement: Statement) -> list[Row]:
        self.asked.append(statement)
        answer = self.answers[statement.sql]
        if isinstance(answer, Exception):
            raise answer
        return answer


class AsyncEngine(Engine):
    async def execute(self, statement: Statement) -> list[Row]:  # type: ignore[override]
        return super().execute(statement)


async def run(colour: str, plan: Plan[Any], answers: dict[str, list[Row] | Exception]) -> Any:
    if colour == "sync":
        return drive(plan, Engine(answers).execute)
    return await drive_async(plan, AsyncEngine(answers).execute)


both = pytest.mark.parametrize("colour", ["sync", "async"])


def add() -> Plan[int]:
    ((a,),) = yield Statement("a")
    ((b,),) = yield Statement("b", (a,))
    return int(a + b)


def nothing() -> Plan[str]:
    yield from ()
    return "no statement"


def nested() -> Plan[list[int]]:
    return [(yield from add()), (yield from add())]


@both
async def test_a_plan_is_sent_the_rows_of_each_statement(colour: str) -> None:
    assert await run(colour, add(), {"a": [(1,)], "b": [(2,)]}) == 3


@both
async def test_a_plan_may_have_no_statement_or_consist_of_plans(colour: str) -> None:
    assert await run(colour, nothing(), {}) == "no statement"
    assert await run(colour, nested(), {"a": [(1,)], "b": [(2,)]}) == [3, 3]


@both
async def test_an_error_of_the_engine_is_raised_inside_the_plan(colour: str) -> None:
    """The plan decides what it means: it may go on, or let it pass."""

    def careful() -> Plan[str]:
        try:
            yield Statement("a")
        except KeyError:
            ((value,),) = yield Statement("b")
            return str(value)
        return "unreached"

    answers: dict[str, list[Row] | Exception] = {"a": KeyError("gone"), "b": [("instead",)]}
    assert await run(colour, careful(), answers) == "instead"
    with pytest.raises(KeyError, match="gone"):
        await run(colour, add(), answers)


@both
async def test_an_error_of_the_plan_is_the_callers(colour: str) -> None:
    def broken() -> Plan[None]:
        yield Statement("a")
        raise ValueError("decided so")

    with pytest.raises(ValueError, match="decided so"):
        await run(colour, broken(), {"a": []})


@both
async def test_a_plan_can_tidy_up_whatever_happens(colour: str) -> None:
    tidied: list[bool] = []

    def tidy() -> Plan[None]:
        try:
            yield Statement("a")
        finally:
            tidied.append(True)

    with pytest.raises(OSError, match="disk"):
        await run(colour, tidy(), {"a": OSError("disk")})
    assert tidied == [True]


class AccountsFacet(Facet, abstract=True):
    """What is declared of something with operations."""

    @operation(Effect.WRITE, has_content=False)
    def pay(self, amount: int, *, twice: bool = False) -> Operation[int]:
        """Pay *amount*."""
        raise NotImplementedError


class Accounts(AccountsFacet):
    """Something with operations."""

    def __init__(self) -> None:
        self.started = 0

    @planned
    def pay(self, amount: int, *, twice: bool = False) -> Plan[int]:
        self.started += 1
        yield Statement("pay", (amount,))
        return amount * (2 if twice else 1)


def test_an_operation_is_a_named_plan_that_has_not_started() -> None:
    accounts = Accounts()
    made = accounts.pay(5, twice=True)
    assert isinstance(made, Operation)
    assert (made.name, made.effect, made.given) == ("pay", Effect.WRITE, (5,))
    assert accounts.started == 0
    assert Accounts.pay.__doc__ == "Pay *amount*."


def test_an_operation_can_be_started_again_from_the_beginning() -> None:
    """As a store does when a shared commit fails."""
    accounts = Accounts()
    made = accounts.pay(5, twice=True)
    engine = Engine({"pay": []})
    start: Callable[[], Plan[int]] = made.start
    assert [drive(start(), engine.execute) for _ in range(2)] == [10, 10]
    assert [statement.params for statement in engine.asked] == [(5,), (5,)]


def test_values_are_frozen() -> None:
    statement = Statement("a")
    with pytest.raises(AttributeError):
        statement.sql = "b"  # type: ignore[misc]  # that is the point
    assert (statement.params, statement.many) == ((), False)

"""Store operations written once, run blocking or awaited.

A *plan* is a generator: it yields the statements that it wants executed, is sent their rows, and
returns a value. It does no I/O, so a test can drive one by hand and a caller can run one inside a
transaction of their own. An *operation* is a named plan that can be started again from the
beginning, which a store does when a shared commit fails; one operation is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import Enum
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")

Row = tuple[Any, ...]


class Statement(msgspec.Struct, frozen=True):
    """One statement; with ``many`` set, it is executed once for each of its parameter rows."""

    sql: str
    params: Sequence[Any] = ()
    many: bool = False
    alone: bool = False
    """It may be a transaction of its own: what the plan does after it, if anything, need not be
    atomic with it. A store for which a round trip is dear then sends it without begin and commit,
    and may let it share a commit with others; only a plan's first statement is looked at."""
    keys: Sequence[tuple[str, str]] = ()
    """Types and idempotency keys that it takes, for which another transaction may have it wait."""
    leases: Sequence[str] = ()
    """Secrets of the leases that it locks, in the one order in which everybody does."""
    prepares: bool = False
    """It is also no part of what the operation is said to do: if all that follows fails, nothing
    was done. It can be repeated at any time."""


Plan = Generator[Statement, list[Row], T]


class Effect(Enum):
    """What is at stake if a power cut takes an operation back after it was answered."""

    READ = "read"
    """Nothing was written."""
    LEASE = "lease"
    """A claim or a heartbeat: losing one only makes a job run again, so it need not wait."""
    WRITE = "write"
    """Somebody relies on it: it is answered only when it is as durable as the store makes it."""


class Operation(msgspec.Struct, Generic[T], frozen=True):
    """A named plan that has not started."""

    name: str
    effect: Effect
    start: Callable[[], Plan[T]]
    given: tuple[Any, ...] = ()
    """The positional arguments, for whoever observes the operation."""
    timeout: float | None = None
    """Seconds for which whoever runs it waits for a server to say anything; None for as long as the
    store sees fit. Past it the outcome is unknown."""

    def within(self, timeout: float) -> Operation[T]:
        """Return this operation for a caller who gives up on a server that is silent so long."""
        return replace(self, timeout=timeout)


class StatementExecutor(Protocol):
    def execute(self, statement: Statement) -> list[Row]: ...


class AsyncStatementExecutor(Protocol):
    async def execute(self, statement: Statement) -> list[Row]: ...


def operation(
    effect: Effect,
) -> Callable[[Callable[Concatenate[S, P], Plan[T]]], Callable[Concatenate[S, P], Operation[T]]]:
    """Make a method that returns a plan into one that returns an operation."""

    def decorate(
        method: Callable[Concatenate[S, P], Plan[T]],
    ) -> Callable[Concatenate[S, P], Operation[T]]:
        @wraps(method)
        def make(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Operation[T]:
            return Operation(method.__name__, effect, partial(method, self, *args, **kwargs), args)

        return make

    return decorate


def part_of(operation: Operation[T]) -> Plan[T]:
    """Return the plan of *operation* as a part of another one, and of its transaction.

    No statement of it may be a transaction of its own any more.
    """
    plan = operation.start()
    try:
        statement = next(plan)
        while True:
            try:
                rows = yield replace(statement, alone=False, prepares=False)
            except Exception as error:  # noqa: BLE001 - the plan decides what an error means
                statement = plan.throw(error)
            else:
                statement = plan.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


def run_plan(plan: Plan[T], executor: StatementExecutor) -> T:
    """Drive *plan* to its result, executing each statement in this thread."""
    try:
        statement = next(plan)
        while True:
            try:
                rows = executor.execute(statement)
            except Exception as error:  # noqa: BLE001 - the plan decides what an error means
                statement = plan.throw(error)
            else:
                statement = plan.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def run_plan_async(plan: Plan[T], executor: AsyncStatementExecutor) -> T:
    """Drive *plan* to its result, awaiting each statement."""
    try:
        statement = next(plan)
        while True:
            try:
                rows = await executor.execute(statement)
            except Exception as error:  # noqa: BLE001 - the plan decides what an error means
                statement = plan.throw(error)
            else:
                statement = plan.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result

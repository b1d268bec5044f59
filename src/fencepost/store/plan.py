"""Store operations written once, run blocking or awaited.

A *plan* is a generator: it yields the statements that it wants executed, is sent their rows, and
returns a value. It does no I/O, so a test can drive one by hand and a caller can run one inside a
transaction of their own. An *operation* is a declared plan that can be started again from the
beginning, which a store does when a shared commit fails; one operation is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.job.job import NewJob

T = TypeVar("T")

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


class Wakes(Enum):
    """Which listeners an operation wakes, apart from those whom the moves in its reply concern."""

    BY_MOVES = "by its moves"
    """No others."""
    READY = "ready"
    """Those that wait for claimable jobs, each time."""
    IF_FIRED = "if it fired"
    """Those too, if a cron made jobs."""


class Declaration(msgspec.Struct, frozen=True, eq=False):
    """What is said of an operation where it is declared, once for all engines and wrappers.

    There is one for each operation: it is compared by identity, which also makes it a quick key.
    """

    name: str
    """As metrics and logs show it."""
    effect: Effect
    wakes: Wakes = Wakes.BY_MOVES
    has_content: bool = True
    """Whether its arguments or its reply may hold content of users."""
    jobs_at: int | None = None
    """Which of its arguments, from 0, are the new jobs that it stores; None if there is none."""


class Operation(msgspec.Struct, Generic[T], frozen=True):
    """A declared plan that has not started."""

    declaration: Declaration
    start: Callable[[], Plan[T]]
    given: tuple[Any, ...] = ()
    """The positional arguments, for code that observes the operation."""
    timeout: float | None = None
    """Seconds for which the caller waits for a server to say anything; None for as long as the
    store sees fit. Past it the outcome is unknown."""

    @property
    def name(self) -> str:
        """The label in metrics and logs. To ask which operation it is, use ``is_a``."""
        return self.declaration.name

    @property
    def effect(self) -> Effect:
        return self.declaration.effect

    @property
    def new_jobs(self) -> Sequence[NewJob]:
        """The jobs that it is to store, if they are an argument of its own."""
        at = self.declaration.jobs_at
        if at is None or len(self.given) <= at:
            return ()
        jobs: Sequence[NewJob] = self.given[at]
        return jobs

    def is_a(self, *methods: Callable[..., Operation[Any]]) -> bool:
        """Tell whether it was made by one of these methods, as a facet declares them."""
        return any(self.declaration is declaration_of(method) for method in methods)

    def within(self, timeout: float) -> Operation[T]:
        """Return this operation for a caller who gives up on a server that is silent so long."""
        return replace(self, timeout=timeout)


def declaration_of(method: Callable[..., Operation[Any]]) -> Declaration:
    """Return what was declared of an operation, given the method of the facet that declares it."""
    declaration: Declaration = vars(method)["declaration"]
    return declaration


class StatementExecutor(Protocol):
    def execute(self, statement: Statement) -> list[Row]: ...


class AsyncStatementExecutor(Protocol):
    async def execute(self, statement: Statement) -> list[Row]: ...


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

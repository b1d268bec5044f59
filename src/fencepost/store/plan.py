"""Store operations written once, run blocking or awaited.

A *plan* is a generator: it yields the statements that it wants executed, is sent their rows, and
returns a value. It does no I/O, so a test can drive one by hand and a caller can run one inside a
transaction of their own. An *operation* is a declared plan that can be started again from the
beginning, which a store does when a shared commit fails; one operation is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.job.job import NewJob
from fencepost.generators import delegate

T = TypeVar("T")

Row = tuple[Any, ...]


class Statement(msgspec.Struct, frozen=True):
    """One statement; with ``many`` set, it is executed once for each of its parameter rows."""

    sql: str
    params: Sequence[Any] = ()
    many: bool = False
    alone: bool = False
    """It may be its own transaction: what the plan does after it need not be atomic with it. Where
    a round trip is expensive, a store sends it without begin and commit, or in a commit shared with
    others. Only a plan's first statement can be alone."""
    keys: Sequence[tuple[str, str]] = ()
    """Types and idempotency keys that it locks; another transaction may hold them."""
    leases: Sequence[str] = ()
    """Lease tokens that it locks, in the global order."""
    prepares: bool = False
    """It only prepares the operation, and can be repeated at any time: if what follows fails,
    nothing was done."""
    meanwhile: Callable[[], None] | None = None
    """Called while a server is at it, if there is one: prepares what the plan does next. It must
    not raise, and the plan must not rely on it."""


Plan = Generator[Statement, list[Row], T]


class Effect(Enum):
    """What a power cut may take back after an operation was answered."""

    READ = "read"
    """Nothing was written."""
    LEASE = "lease"
    """A claim or a heartbeat: if it is lost, a job runs again, so it need not wait for the disk."""
    WRITE = "write"
    """The caller relies on it: it is answered only when it is durable."""


class Wakes(Enum):
    """Which listeners an operation wakes, besides those concerned by the moves in its reply."""

    BY_MOVES = "by its moves"
    """No others."""
    READY = "ready"
    """Listeners for claimable jobs, always."""
    IF_FIRED = "if it fired"
    """Listeners for claimable jobs, if a cron made some."""


class Declaration(msgspec.Struct, frozen=True, eq=False):
    """The properties of an operation, declared once for all engines and wrappers.

    There is one for each operation, compared by identity, which also makes it a fast key.
    """

    name: str
    """The label in metrics and logs."""
    effect: Effect
    wakes: Wakes = Wakes.BY_MOVES
    has_content: bool = True
    """Whether its arguments or its reply may hold content of users."""
    jobs_at: int | None = None
    """The index of the argument with the new jobs that it stores, if it has one."""
    is_long: bool = False
    """Whether it reads more the more names or jobs a store holds: short reads do not wait for it,
    if the engine lets one read wait for another at all."""


class Operation(msgspec.Struct, Generic[T], frozen=True):
    """A declared plan that has not started."""

    declaration: Declaration
    start: Callable[[], Plan[T]]
    given: tuple[Any, ...] = ()
    """The positional arguments, for code that observes the operation."""
    timeout: float | None = None
    """Seconds to wait for a silent server, after which the outcome is unknown; None: the store's
    own limit."""
    meanwhile: Callable[[], None] | None = None
    """What the caller has to do before it is blocked, see ``Store.hands_over``."""

    @property
    def name(self) -> str:
        """The label in metrics and logs. To find out which operation it is, use ``is_a``."""
        return self.declaration.name

    @property
    def effect(self) -> Effect:
        return self.declaration.effect

    @property
    def new_jobs(self) -> Sequence[NewJob]:
        """The jobs that it stores, if they are one of its arguments."""
        at = self.declaration.jobs_at
        if at is None or len(self.given) <= at:
            return ()
        jobs: Sequence[NewJob] = self.given[at]
        return jobs

    def is_a(self, *methods: Callable[..., Operation[Any]]) -> bool:
        """Return whether one of these methods of a facet made it."""
        return any(self.declaration is declaration_of(method) for method in methods)

    def within(self, timeout: float) -> Operation[T]:
        """Return this operation with a limit on how long a server may be silent."""
        return replace(self, timeout=timeout)


def declaration_of(method: Callable[..., Operation[Any]]) -> Declaration:
    """Return the declaration of an operation, given the method of its facet."""
    declaration: Declaration = vars(method)["declaration"]
    return declaration


def part_of(operation: Operation[T]) -> Plan[T]:
    """Return the plan of *operation* as a part of another one, and of its transaction.

    None of its statements may then be a transaction of its own.
    """
    return delegate(operation.start(), _in_transaction)


def _in_transaction(statement: Statement) -> Plan[list[Row]]:
    return (yield replace(statement, alone=False, prepares=False))

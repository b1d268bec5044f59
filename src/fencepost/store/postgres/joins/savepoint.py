"""A part of a caller's transaction that may be refused without harm to the rest."""

from __future__ import annotations

from typing import TypeVar

from fencepost.errors import FencepostError
from fencepost.store.plan import Plan, Statement

T = TypeVar("T")

SAVEPOINT = Statement("savepoint fencepost")
ROLLBACK = Statement("rollback to savepoint fencepost")
RELEASE = Statement("release savepoint fencepost")


def all_or_none(plan: Plan[T]) -> Plan[T]:
    """Undo what *plan* did if it then refuses, and leave the caller's transaction usable.

    After an error of the server's the transaction has failed as after any other statement.
    """
    yield SAVEPOINT
    try:
        result = yield from plan
    except FencepostError:
        yield ROLLBACK
        yield RELEASE
        raise
    yield RELEASE
    return result

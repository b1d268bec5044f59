"""A part of a transaction that may fail alone: what a claim does on the side."""

from __future__ import annotations

from typing import TypeVar

import psycopg

from fencepost.core.bounds import CHORE_LOCK_TIMEOUT, LOCK_TIMEOUT
from fencepost.store.chores import Chores
from fencepost.store.plan import Plan
from fencepost.store.postgres.engine.errors import STALE_SESSION, headline
from fencepost.store.postgres.engine.transaction import RETREAT, SHELTER, waiting

T = TypeVar("T")


def sheltered(chores: Chores, name: str, plan: Plan[T], instead: T) -> Plan[T]:
    """Do a chore; should it fail, take it back, take note of it and return *instead*.

    It waits for nobody's lock for longer than a moment.
    """
    yield SHELTER
    try:
        yield waiting(CHORE_LOCK_TIMEOUT)
        result = yield from plan
        yield waiting(LOCK_TIMEOUT)
    except psycopg.Error as error:
        # There is no session any more, or none that can write: that is not the chore's fault.
        if error.sqlstate is None or error.sqlstate in STALE_SESSION:
            raise
        yield RETREAT
        chores.failed(name, headline(error))
        return instead
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a chore, the claim is not
        yield RETREAT
        chores.failed(name, repr(error))
        return instead
    chores.done(name)
    return result

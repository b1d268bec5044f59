"""A part of a transaction that may fail alone: what a claim does on the side."""

from __future__ import annotations

from typing import TypeVar

from fencepost.store.chores import Chores
from fencepost.store.plan import Plan, Statement
from fencepost.store.sqlite.jobs.catalog import Env

T = TypeVar("T")

SHELTER = Statement("savepoint shelter")
RETREAT = Statement("rollback to shelter")
RELEASE = Statement("release shelter")


def sheltered(env: Env, chores: Chores, name: str, plan: Plan[T], instead: T) -> Plan[T]:
    """Do a chore; should it fail, take it back, take note of it and return *instead*."""
    if not chores.may(name):
        return instead
    yield SHELTER
    try:
        result = yield from plan
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a chore, the claim is not
        yield RETREAT
        yield RELEASE
        env.catalog.forget()
        chores.failed(name, repr(error))
        return instead
    yield RELEASE
    chores.done(name)
    return result

"""Conditions of a search for jobs: what the searches of both SQL engines are made of.

Each engine searches in its own way: what is quick depends on its tables, indexes and planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.store.plan import Plan, Row, Statement


class Condition(NamedTuple):
    """A piece of SQL and the parameters in it."""

    sql: str
    params: Sequence[Any] = ()


ALWAYS = Condition("true")


class Totals(NamedTuple):
    """How many jobs are in some lanes and states, in those lanes, and in those states."""

    both: int
    of_lane: int
    of_state: int


def given(*comparisons: tuple[str, Any]) -> list[Condition]:
    """Return the comparisons whose parameter is not None."""
    return [Condition(sql, (value,)) for sql, value in comparisons if value is not None]


def all_of(*conditions: Condition) -> Condition:
    """Return the conjunction of *conditions*."""
    return Condition(
        " and ".join(condition.sql for condition in conditions) or ALWAYS.sql,
        [param for condition in conditions for param in condition.params],
    )


def numbers_of(rows: Sequence[Row]) -> list[int]:
    """Return the first column."""
    return [row[0] for row in rows]


def lanes_of(template: str, names: Sequence[Condition]) -> Plan[list[int] | None]:
    """Return the numbers of the lanes that have these names; None for all if there are none."""
    if not names:
        return None
    every = all_of(*names)
    return numbers_of((yield Statement(template.format(conditions=every.sql), every.params)))

"""What the plans of operators share in both SQL engines: jobs one by one, found by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.values.names import wanted_ids
from fencepost.store.interface.control import NotFound
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import Codec, SqlEnv

A = TypeVar("A")
B = TypeVar("B")
N = TypeVar("N", bound="NamesJob")


class NamesJob(Protocol):
    """A request about one job."""

    @property
    def job_id(self) -> str: ...


def each(items: Iterable[A], plan_of: Callable[[A], Plan[B]]) -> Plan[list[B]]:
    """Run one plan after the other, for operations on few jobs."""
    replies: list[B] = []
    for item in items:
        reply = yield from plan_of(item)
        replies += [reply]
    return replies


def each_found(
    codec: Codec, sql: str, items: Iterable[N], plan_of: Callable[[N, Row], Plan[B]]
) -> Plan[list[B | NotFound]]:
    """Do the same with the row that *sql* finds for each job, or reply that there is none."""

    def found(item: N) -> Plan[B | NotFound]:
        row = yield from one(codec, sql, item.job_id)
        return NotFound(item.job_id) if row is None else (yield from plan_of(item, row))

    return each(items, found)


def one(codec: Codec, sql: str, job_id: str) -> Plan[Row | None]:
    """Return the row that *sql* finds for a job id; None for no row, and for an invalid id."""
    for text in wanted_ids([job_id]).values():
        rows = yield Statement(sql, (codec.encode_id(text),))
        if rows:
            return rows[0]
    return None


def policy_of(env: SqlEnv, number: int) -> Plan[Policy]:
    """Return a policy; the default one for one that cannot be read."""
    policies = yield from env.catalog.policies([number])
    return policies.get(number, DEFAULT_POLICY)

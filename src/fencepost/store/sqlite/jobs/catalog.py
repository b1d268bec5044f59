"""What a job's row refers to by number: lanes and policies; and the counters.

Lanes and policies are few and their numbers never change meaning, so each process caches them. The
cache is cleared on every rollback, since a number may have been made in that transaction. If
another process has removed a cached lane, counting a job in it fails (``counters`` refers to
``lanes``), and the store rolls back and runs the operation again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from fencepost.clock import Clock
from fencepost.core import bounds
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, decode_policy, encode_policy
from fencepost.core.values.names import lanes_max
from fencepost.errors import TooManyLanesError
from fencepost.store.chores import Chores
from fencepost.store.interface.records.overview import Finding
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import NUMBER
from fencepost.store.sqlite.jobs.rows import values

MAKE_LANE = """
insert into lanes(queue, type) select ?, ? where (select count(*) from lanes) < ?
on conflict do nothing
"""
FIND_LANE = "select lane from lanes where queue = ? and type = ?"
GET_LANES = "select lane, queue, type from lanes where lane in (select value from json_each(?))"
MAKE_POLICY = "insert into policies(body) values (?) on conflict do nothing"
FIND_POLICY = "select policy from policies where body = ?"
GET_POLICIES = "select policy, body from policies where policy in (select value from json_each(?))"
COUNT = """
insert into counters(lane, state, count) {values}
on conflict(lane, state) do update set count = count + excluded.count
"""

REMEMBERED_MAX = 10_000
"""Cached policies, and cached lanes."""


class Lane(NamedTuple):
    """One type on one queue."""

    number: int
    queue: str
    type: str


class Catalog:
    """Numbers of lanes and policies, cached."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Clear the cache."""
        self._lane_numbers: dict[tuple[str, str], int] = {}
        self._lanes: dict[int, Lane] = {}
        self._policy_numbers: dict[Policy, int] = {}
        self._policies: dict[int, Policy] = {}
        self.latest: int | None = None
        """When the newest job that this process knows of was created."""

    def lane_number(self, queue: str, type: str) -> Plan[int]:
        """Return the number of a lane, created if it is new, or raise TooManyLanesError."""
        number = self._lane_numbers.get((queue, type))
        if number is None:
            yield Statement(MAKE_LANE, (queue, type, lanes_max(type)))
            found = yield Statement(FIND_LANE, (queue, type))
            if not found:
                raise TooManyLanesError(bounds.LANES_MAX)
            number = int(found[0][0])
            self._remember_lane(Lane(number, queue, type))
        return number

    def lanes(self, numbers: Iterable[int]) -> Plan[dict[int, Lane]]:
        """Return lanes by number."""
        wanted = set(numbers)
        if missing := _missing(self._lanes, wanted):
            rows = yield Statement(GET_LANES, (json.dumps(sorted(missing)),))
            for row in rows:
                self._remember_lane(Lane(*row))
        return {number: self._lanes[number] for number in wanted}

    def _remember_lane(self, lane: Lane) -> None:
        if len(self._lane_numbers) >= REMEMBERED_MAX:
            self._lane_numbers.clear()
        self._lane_numbers[lane.queue, lane.type] = lane.number
        self._lanes[lane.number] = lane

    def policy_number(self, policy: Policy) -> Plan[int]:
        """Return the number of a policy, stored if it is new."""
        number = self._policy_numbers.get(policy)
        if number is None:
            body = encode_policy(policy)
            yield Statement(MAKE_POLICY, (body,))
            ((number,),) = yield Statement(FIND_POLICY, (body,))
            if len(self._policy_numbers) >= REMEMBERED_MAX:
                self._policy_numbers.clear()
            self._policy_numbers[policy] = number
        return number

    def policies(self, numbers: Iterable[int]) -> Plan[dict[int, Policy]]:
        """Return policies by number, except those that cannot be read."""
        wanted = set(numbers)
        if missing := _missing(self._policies, wanted):
            rows = yield Statement(GET_POLICIES, (json.dumps(sorted(missing)),))
            for number, body in rows:
                try:
                    self._policies[number] = decode_policy(body)
                except (ValueError, TypeError):
                    continue
        return {number: self._policies[number] for number in wanted & self._policies.keys()}


def _missing(known: dict[int, Any], wanted: set[int]) -> set[int]:
    """Return what is not remembered; everything, and nothing is remembered, if that is too much."""
    missing = wanted - known.keys()
    if missing and len(known) >= REMEMBERED_MAX:
        known.clear()
        return wanted
    return missing


class Env(NamedTuple):
    """What a plan needs besides its arguments."""

    clock: Clock
    catalog: Catalog
    chores: Chores
    findings: Callable[[int], list[Finding]]
    """What an operator should know about where the jobs are kept; given the schema's version."""

    @property
    def rng(self) -> Random:
        return self.clock.rng

    @property
    def now(self) -> int:
        """The time as tables keep it."""
        return self.clock.now_us()


class JobCounters:
    """Changes of the counters by lane and state that a plan has yet to write."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[int, int]] = Counter()

    def move(self, lane: int, was: State | None, state: State | None, count: int = 1) -> None:
        """Count *count* jobs of *lane* from *was* to *state*; None is outside of the store."""
        if was is not None:
            self._changes[lane, NUMBER[was]] -= count
        if state is not None:
            self._changes[lane, NUMBER[state]] += count

    def write(self) -> Plan[None]:
        """Add the changes to the counters."""
        rows = [(lane, state, change) for (lane, state), change in self._changes.items() if change]
        for sql, params in values(COUNT, rows):
            yield Statement(sql, params)

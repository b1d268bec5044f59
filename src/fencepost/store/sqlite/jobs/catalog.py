"""What a job's row refers to by number: lanes and policies; and the counters.

Lanes and policies are few and never come to mean anything else, so they are remembered. Those that
were made in a transaction that failed must be forgotten: the store does so on every rollback. A
lane that another process has removed is noticed when its jobs are counted (``counters`` refers to
``lanes``), upon which the store rolls back and begins again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from fencepost.clock import Clock
from fencepost.core import bounds
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, decode_policy, encode_policy
from fencepost.core.values.names import lanes_max
from fencepost.errors import TooManyLanesError
from fencepost.store.chores import Chores
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codes import NUMBER
from fencepost.store.sqlite.engine.database import Database
from fencepost.store.sqlite.engine.values import values

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
"""Policies, and lanes."""


class Lane(NamedTuple):
    """One type on one queue."""

    number: int
    queue: str
    type: str


class Catalog:
    """Numbers for lanes and policies, remembered."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all that is remembered."""
        self._lane_numbers: dict[tuple[str, str], int] = {}
        self._lanes: dict[int, Lane] = {}
        self._policy_numbers: dict[Policy, int] = {}
        self._policies: dict[int, Policy] = {}
        self.latest: int | None = None
        """When the newest job was created, as far as this process knows."""

    def lane_number(self, queue: str, type: str) -> Plan[int]:
        """Return the number of a lane, making it if it is new; raise TooManyLanesError."""
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
        missing = wanted - self._lanes.keys()
        if missing:
            if len(self._lanes) >= REMEMBERED_MAX:
                self._lanes.clear()
                missing = wanted
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
        """Return the number of a policy, storing it if it is new."""
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
        """Return policies by number; a corrupt one is missing."""
        wanted = set(numbers)
        missing = wanted - self._policies.keys()
        if missing:
            if len(self._policies) >= REMEMBERED_MAX:
                self._policies.clear()
                missing = wanted
            rows = yield Statement(GET_POLICIES, (json.dumps(sorted(missing)),))
            for number, body in rows:
                try:
                    self._policies[number] = decode_policy(body)
                except (ValueError, TypeError):
                    continue
        return {number: self._policies[number] for number in wanted & self._policies.keys()}


class Env(NamedTuple):
    """What a plan needs besides its arguments."""

    clock: Clock
    catalog: Catalog
    chores: Chores
    database: Database

    @property
    def rng(self) -> Random:
        return self.clock.rng


class Tally:
    """Counts of jobs by lane and state that a plan has changed and not yet written."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[int, int]] = Counter()

    def move(self, lane: int, was: State | None, state: State | None, count: int = 1) -> None:
        """Note that *count* jobs of *lane* went from *was* to *state*; None is nowhere."""
        if was is not None:
            self._changes[lane, NUMBER[was]] -= count
        if state is not None:
            self._changes[lane, NUMBER[state]] += count

    def write(self) -> Plan[None]:
        """Add the changes to the counters."""
        rows = [(lane, state, change) for (lane, state), change in self._changes.items() if change]
        for sql, params in values(COUNT, rows):
            yield Statement(sql, params)


def numbers_json(numbers: Sequence[Any]) -> str:
    """Return a list of numbers for json_each."""
    return "[" + ",".join(map(str, numbers)) + "]"

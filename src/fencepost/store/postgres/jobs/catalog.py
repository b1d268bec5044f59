"""What a job's row refers to by number: lanes and policies, remembered once they are known.

What they stand for never changes. One is remembered only when it has been committed: a job that
referred to a lane which was then rolled back would be lost.

Lanes that have been unused for long are removed, and a failover to a standby that was behind, a
restore or a truncate takes some back. So a number is made of what it stands for, and never comes to
mean anything else; the server refuses to store a job under a number that is not there
(``STALE_NUMBERS``), upon which all is forgotten and asked for again; and a claim says which of the
lanes it asks for it knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any, NamedTuple, TypeVar, cast

from fencepost.clock import Clock, SystemClock
from fencepost.core import bounds
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Policy, decode_policy, encode_policy
from fencepost.core.job.priority import Priority
from fencepost.core.values.instants import seconds_to_us
from fencepost.errors import StoreError
from fencepost.store.chores import Chores
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.jobs.lanes import Lane as Lane
from fencepost.store.postgres.jobs.lanes import LaneKey, Lanes
from fencepost.store.postgres.jobs.rounds import Rounds

T = TypeVar("T")

ALL_LANES = "select lane, queue, type, priority from fencepost.lane"
OF_QUEUES = "queue = any (%s::text[])"
OF_TYPES = "type = any (%s::text[])"
GET_LANES = "select lane, queue, type, priority from fencepost.lane where lane = any (%s)"
LANE_NUMBER = "fencepost.lane_number(%s, %s, %s)"
LANE_NUMBERS = "fencepost.lane_numbers(%s::text[], %s::text[], %s::integer[], %s)"
POLICY_NUMBER = "fencepost.policy_number(%s, %s, %s)"
GET_POLICIES = "select policy, body from fencepost.policy where policy = any (%s)"

REMEMBERED_MAX = 10_000
"""Policies."""
LANES_REMEMBERED_MAX = bounds.LANES_MAX * len(Priority)


def _lane_key(job: NewJob) -> LaneKey:
    return job.queue, job.type, int(job.priority)


class Numbers(NamedTuple):
    """Numbers of all lanes and policies of some jobs."""

    lanes: dict[LaneKey, int]
    policies: dict[Policy, int]

    def lane_of(self, job: NewJob, priority: Priority) -> int | None:
        """Return the number of the lane in which a job would stand at *priority*, if it has one."""
        return self.lanes.get((job.queue, job.type, priority))

    def of(self, job: NewJob) -> tuple[int, int]:
        """Return the numbers of a job's lane and policy."""
        return self.lanes[_lane_key(job)], self.policies[job.policy]


def _give_numbers(lanes: Sequence[LaneKey], policies: Sequence[Policy]) -> Plan[list[int]]:
    columns = [list(column) for column in zip(*lanes, strict=True)] or [[], [], []]
    params: list[Any] = [*columns, bounds.LANES_MAX]
    for policy in policies:
        ttl = None if policy.lease_ttl is None else seconds_to_us(policy.lease_ttl)
        params += [encode_policy(policy), ttl, seconds_to_us(policy.timeout)]
    # An array, since a row cannot have as many columns as a bulk may have policies.
    calls = ", ".join([POLICY_NUMBER] * len(policies))
    sql = f"select {LANE_NUMBERS} || array[{calls}]::integer[]"
    ((numbers,),) = yield Statement(sql, params, alone=True, prepares=True)
    return list(numbers)


class Catalog:
    """Numbers of lanes and policies. Shared by threads: what it holds is only ever added to."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lanes = Lanes()
        self._asked_at: dict[LaneKey, float] = {}
        """When the server last said that a lane is there, on a clock that only rises."""
        self._unsure: set[int] = set()
        """Lanes that a transaction has made which may still fail."""
        self._policy_numbers: dict[Policy, int] = {}
        self._policies: dict[int, Policy] = {}

    def copy(self, other: Catalog) -> None:
        """Know what *other* knows; what this one learns of an open transaction stays with it."""
        with other._mutex:
            self._lanes = Lanes(other._lanes)
            self._policy_numbers = dict(other._policy_numbers)

    def view(self, key: Hashable, make: Callable[[Lanes], T]) -> T:
        """Return what *make* makes of the lanes that are remembered; it is kept under *key*."""
        with self._mutex:
            return self._lanes.view(key, make)

    def learn_lanes(
        self, queues: Collection[str] | None = None, types: Collection[str] | None = None
    ) -> Plan[None]:
        """Remember the lanes that there are of these queues and types, and no others of them.

        Not for a plan that may have made one itself.
        """
        given = [(OF_QUEUES, queues), (OF_TYPES, types)]
        wanted = [(sql, sorted(names)) for sql, names in given if names is not None]
        where = " where " + " and ".join(sql for sql, _ in wanted) if wanted else ""
        rows = yield Statement(ALL_LANES + where, [names for _, names in wanted])
        lanes = [Lane(*row) for row in rows]
        with self._mutex:
            for lane in self._lanes.of(queues, types):
                self._lanes.discard(lane)
            for lane in lanes:
                self._unsure.discard(lane.number)
                self._lanes.add(lane)

    def forget(self) -> None:
        """Remember nothing: what is remembered was lost with the last commits of a server."""
        with self._mutex:
            self._unsure.clear()
            self._lanes = Lanes()
            self._asked_at = {}
            self._policies, self._policy_numbers = {}, {}

    def number(
        self, jobs: Iterable[NewJob], *, afresh: bool = False, sure_at: float | None = None
    ) -> Plan[Numbers]:
        """Return the numbers of lanes and policies of *jobs*, given in a transaction of its own.

        The first thing that a plan does, if it does it at all. With *afresh*, the server is asked
        whatever is remembered, for a plan which would not notice that some were lost. With
        *sure_at*, it is asked for lanes for which it was not within LANE_SURE.
        """
        lanes: dict[LaneKey, int | None] = {}
        policies: dict[Policy, int | None] = {}
        for job in jobs:
            key = _lane_key(job)
            is_asked = afresh or (sure_at is not None and not self._is_sure(key, sure_at))
            lanes[key] = None if is_asked else self._lanes.number(key)
            policies[job.policy] = None if afresh else self._policy_numbers.get(job.policy)
        # In one order, so that two who make the same ones do not wait for each other.
        new_lanes = sorted(key for key, number in lanes.items() if number is None)
        new_policies = [policy for policy, number in policies.items() if number is None]
        if new_lanes or new_policies:
            numbers = yield from _give_numbers(new_lanes, new_policies)
            lanes |= zip(new_lanes, numbers, strict=False)
            policies |= zip(new_policies, numbers[len(new_lanes) :], strict=True)
            for key, number in zip(new_lanes, numbers, strict=False):
                self._remember(Lane(number, *key))
            with self._mutex:
                if sure_at is not None:
                    self._asked_at |= dict.fromkeys(new_lanes, sure_at)
                is_full = len(self._policy_numbers) >= REMEMBERED_MAX
                known = {} if is_full else self._policy_numbers
                self._policy_numbers = {**known, **cast("dict[Policy, int]", policies)}
        return Numbers(cast("dict[LaneKey, int]", lanes), cast("dict[Policy, int]", policies))

    def _is_sure(self, key: LaneKey, now: float) -> bool:
        asked_at = self._asked_at.get(key)
        return asked_at is not None and now - asked_at < bounds.LANE_SURE

    def lane_number(self, queue: str, type: str, priority: Priority) -> Plan[int]:
        """Return the number of a lane, which this plan's transaction makes if it is new.

        The server is asked, whatever is remembered: jobs are moved there, and nothing else would
        notice that a lane was lost.
        """
        if not queue:
            raise StoreError("the lane of this job is missing in the database; restore it")
        ((number,),) = yield Statement(f"select {LANE_NUMBER}", (queue, type, int(priority)))
        with self._mutex:
            if number not in self._lanes:
                self._unsure.add(number)
        return int(number)

    def lanes(self, numbers: Iterable[int]) -> Plan[dict[int, Lane]]:
        """Return lanes by number; one that is missing has no names, so that others are served."""
        wanted = set(numbers)
        remembered = {number: self._lanes.get(number) for number in wanted}
        found = {number: lane for number, lane in remembered.items() if lane is not None}
        if len(found) < len(wanted):
            missing = sorted(wanted - found.keys())
            for row in (yield Statement(GET_LANES, (missing,))):
                lane = found[row[0]] = Lane(*row)
                if lane.number not in self._unsure:
                    self._remember(lane)
            for number in wanted - found.keys():
                found[number] = Lane(number, "", "", Priority.NORMAL)
        return found

    def _remember(self, lane: Lane) -> None:
        with self._mutex:
            if len(self._lanes) >= LANES_REMEMBERED_MAX and lane.number not in self._lanes:
                self._lanes = Lanes()  # claims learn theirs anew
                self._asked_at = {}
            self._lanes.add(lane)

    def policies(self, numbers: Iterable[int]) -> Plan[dict[int, Policy]]:
        """Return policies by number; a corrupt one is missing."""
        wanted = set(numbers)
        remembered = self._policies
        found = {number: remembered[number] for number in wanted if number in remembered}
        missing = sorted(wanted - found.keys())
        if missing:
            for number, body in (yield Statement(GET_POLICIES, (missing,))):
                with suppress(ValueError, TypeError):
                    found[number] = decode_policy(body)
            with self._mutex:
                is_full = len(self._policies) >= REMEMBERED_MAX
                self._policies = {**({} if is_full else self._policies), **found}
        return found


class Env(NamedTuple):
    """What a plan needs besides its arguments."""

    clock: Clock
    catalog: Catalog
    chores: Chores
    rounds: Rounds
    connections: Connections
    is_joined: bool = False
    """In a caller's transaction, which may take any time to end."""

    def joined(self) -> Env:
        """Return one for a caller's transaction: what it learns there may be rolled back."""
        return self._replace(catalog=Catalog(), is_joined=True)

    @property
    def rng(self) -> Random:
        return self.clock.rng

    @property
    def now(self) -> datetime | None:
        """The time to pass to the server; None, and so the server's own, unless in a test."""
        return None if isinstance(self.clock, SystemClock) else self.clock.now()

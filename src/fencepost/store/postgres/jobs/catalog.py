"""What a job's row refers to by number: lanes and policies, remembered once they are known.

What a number stands for never changes. It is remembered only once it is committed: a job that
referred to a lane which was then rolled back would be lost.

Lanes that have been unused for long are removed, and a failover to a standby that was behind, a
restore or a truncate takes some back. So a number is made from the names that it stands for and is
never reused; the server refuses to store a job under a number that does not exist
(``STALE_NUMBERS``), upon which this process forgets all numbers and asks again; and a claim names
the lanes that it knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from fencepost.clock import Clock, SystemClock
from fencepost.core import bounds
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Policy, Priority, decode_policy, encode_policy
from fencepost.core.values.times import seconds_to_us
from fencepost.errors import StoreError
from fencepost.store.chores import Chores
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.engine.connections import Connections

if TYPE_CHECKING:
    from fencepost.store.postgres.jobs.upkeep import TidyRounds

T = TypeVar("T")

ALL_LANES = "select lane, queue, type, priority from fencepost.lanes"
OF_QUEUES = "queue = any (%s::text[])"
OF_TYPES = "type = any (%s::text[])"
GET_LANES = f"{ALL_LANES} where lane = any (%s)"
LANE_NUMBER = "fencepost.lane_number(%s, %s, %s)"
LANE_NUMBERS = "fencepost.lane_numbers(%s::text[], %s::text[], %s::integer[], %s)"
POLICY_NUMBER = "fencepost.policy_number(%s, %s, %s)"
GET_POLICIES = "select policy, body from fencepost.policies where policy = any (%s)"
QUEUES = """
select j.id::text, lanes.queue from fencepost.submissions j
join fencepost.lanes on lanes.lane = j.lane where j.id = any (%s::uuid[])
"""
NOW = """
select (extract(epoch from coalesce(%s::timestamptz, clock_timestamp())) * 1000000)::bigint
"""

POLICIES_REMEMBERED_MAX = 10_000
LANES_REMEMBERED_MAX = bounds.LANES_MAX * len(Priority)
VIEWS_MAX = 1_000


class Env(NamedTuple):
    """What a plan needs besides its arguments."""

    clock: Clock
    catalog: Catalog
    chores: Chores
    rounds: TidyRounds
    connections: Connections
    is_joined: bool = False
    """In a caller's transaction, which may stay open for any time."""

    def joined(self) -> Env:
        """Return an environment for a caller's transaction: what it learns may be rolled back."""
        return self._replace(catalog=Catalog(), is_joined=True)

    @property
    def rng(self) -> Random:
        return self.clock.rng

    @property
    def now(self) -> datetime | None:
        """The time to pass to the server; None, for the server's own, unless in a test."""
        return None if isinstance(self.clock, SystemClock) else self.clock.now()


def now_us(env: Env) -> Plan[int]:
    """Return the time by the server's clock, or by a test's, in microseconds since 1970."""
    ((now,),) = yield Statement(NOW, (env.now,))
    return int(now)


class Lane(NamedTuple):
    """One type of one queue at one priority."""

    number: int
    queue: str
    type: str
    priority: int


LaneKey = tuple[str, str, int]
_Family = dict[int, Lane]
"""The lanes of one queue and type, by number."""


class Lanes:
    """Some lanes, found by number and by names. Not for several threads at once.

    A claim finds the lanes of its queues and types without looking at the others.
    """

    def __init__(self, lanes: Iterable[Lane] = ()) -> None:
        self._by_number: dict[int, Lane] = {}
        self._by_key: dict[LaneKey, Lane] = {}
        self._by_queue: dict[str, dict[str, _Family]] = {}
        self._by_type: dict[str, dict[str, _Family]] = {}
        self._views: dict[Hashable, Any] = {}
        for lane in lanes:
            self.add(lane)

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._by_number.values()))

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    def get(self, number: int) -> Lane | None:
        return self._by_number.get(number)

    def number(self, key: LaneKey) -> int | None:
        lane = self._by_key.get(key)
        return None if lane is None else lane.number

    def add(self, lane: Lane) -> None:
        """Remember *lane* instead of the one that had its names."""
        if self._by_number.get(lane.number) == lane == self._by_key.get(lane[1:]):
            return
        self._views.clear()  # or the next claim would have to ask for lanes once more
        self._by_number[lane.number] = lane
        self._by_key[lane[1:]] = lane
        types = self._by_queue.setdefault(lane.queue, {})
        family = types.get(lane.type)
        if family is None:
            family = types[lane.type] = {}
            self._by_type.setdefault(lane.type, {})[lane.queue] = family
        family[lane.number] = lane

    def discard(self, lane: Lane) -> None:
        """Forget *lane*."""
        family = self._by_queue.get(lane.queue, {}).get(lane.type, {})
        if family.pop(lane.number, None) is None:
            return
        self._views.clear()
        del self._by_number[lane.number]
        if self.number(lane[1:]) == lane.number:
            del self._by_key[lane[1:]]
        if not family:
            _drop(self._by_queue, lane.queue, lane.type)
            _drop(self._by_type, lane.type, lane.queue)

    def of(self, queues: Collection[str] | None, types: Collection[str] | None) -> list[Lane]:
        """Return the lanes of these queues and types; None means all."""
        if queues is not None:
            families = _pick(self._by_queue, queues, types)
        elif types is not None:
            families = _pick(self._by_type, types, None)
        else:
            return list(self)
        return [lane for family in families for lane in family.values()]

    def view(self, key: Hashable, make: Callable[[Lanes], T]) -> T:
        """Return what *make* makes of these lanes, kept under *key* until they change."""
        view: T | None = self._views.get(key)
        if view is None:
            if len(self._views) >= VIEWS_MAX:
                self._views.clear()
            view = self._views[key] = make(self)
        return view


def _pick(
    index: dict[str, dict[str, _Family]], firsts: Collection[str], seconds: Collection[str] | None
) -> Iterator[_Family]:
    for first in firsts:
        families = index.get(first)
        if not families:
            continue
        if seconds is None:
            yield from families.values()
        elif len(seconds) <= len(families):
            yield from (families[second] for second in seconds if second in families)
        else:
            yield from (family for second, family in families.items() if second in seconds)


def _drop(index: dict[str, dict[str, _Family]], first: str, second: str) -> None:
    del index[first][second]
    if not index[first]:
        del index[first]


def _lane_key(job: NewJob) -> LaneKey:
    return job.queue, job.type, int(job.priority)


class JobNumbers(NamedTuple):
    """Numbers of all lanes and policies of some jobs."""

    lanes: dict[LaneKey, int]
    policies: dict[Policy, int]

    def lane_of(self, job: NewJob, priority: Priority) -> int | None:
        """Return the number of a job's lane at *priority*, if there is one."""
        return self.lanes.get((job.queue, job.type, priority))

    def of(self, job: NewJob) -> tuple[int, int]:
        """Return the numbers of a job's lane and policy."""
        return self.lanes[_lane_key(job)], self.policies[job.policy]


def _make_numbers(lanes: Sequence[LaneKey], policies: Sequence[Policy]) -> Plan[list[int]]:
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
    """Numbers of lanes and policies. Threads share it: values in it are only ever added."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lanes = Lanes()
        self._asked_at: dict[LaneKey, float] = {}
        """When the server last confirmed that a lane exists, on a monotonic clock."""
        self._unsure: set[int] = set()
        """Lanes made by a transaction that may still fail."""
        self._policy_numbers: dict[Policy, int] = {}
        self._policies: dict[int, Policy] = {}

    def copy(self, other: Catalog) -> None:
        """Know what *other* knows; what this one learns in an open transaction stays here."""
        with other._mutex:
            self._lanes = Lanes(other._lanes)
            self._policy_numbers = dict(other._policy_numbers)

    def view(self, key: Hashable, make: Callable[[Lanes], T]) -> T:
        """Return what *make* makes of the remembered lanes, kept under *key*."""
        with self._mutex:
            return self._lanes.view(key, make)

    def learn_lanes(
        self, queues: Collection[str] | None = None, types: Collection[str] | None = None
    ) -> Plan[None]:
        """Replace the remembered lanes of these queues and types by the server's.

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
        """Forget everything: the server has lost some of it."""
        with self._mutex:
            self._unsure.clear()
            self._lanes = Lanes()
            self._asked_at = {}
            self._policies, self._policy_numbers = {}, {}

    def number(
        self, jobs: Iterable[NewJob], *, afresh: bool = False, sure_at: float | None = None
    ) -> Plan[JobNumbers]:
        """Return the numbers of lanes and policies of *jobs*; new ones are committed at once.

        Only as the first step of a plan. With *afresh*, ask the server about all of them, for a
        plan which would not notice that some were lost. With *sure_at*, ask about lanes that it has
        not confirmed within LANE_SURE.
        """
        lanes: dict[LaneKey, int | None] = {}
        policies: dict[Policy, int | None] = {}
        for job in jobs:
            key = _lane_key(job)
            is_asked = afresh or (sure_at is not None and not self._is_sure(key, sure_at))
            lanes[key] = None if is_asked else self._lanes.number(key)
            policies[job.policy] = None if afresh else self._policy_numbers.get(job.policy)
        # In one order, so that two processes that make the same lanes do not deadlock.
        new_lanes = sorted(key for key, number in lanes.items() if number is None)
        new_policies = [policy for policy, number in policies.items() if number is None]
        if new_lanes or new_policies:
            numbers = yield from _make_numbers(new_lanes, new_policies)
            lanes |= zip(new_lanes, numbers, strict=False)
            policies |= zip(new_policies, numbers[len(new_lanes) :], strict=True)
            for key, number in zip(new_lanes, numbers, strict=False):
                self._remember(Lane(number, *key))
            with self._mutex:
                if sure_at is not None:
                    self._asked_at |= dict.fromkeys(new_lanes, sure_at)
                is_full = len(self._policy_numbers) >= POLICIES_REMEMBERED_MAX
                known = {} if is_full else self._policy_numbers
                self._policy_numbers = {**known, **cast("dict[Policy, int]", policies)}
        return JobNumbers(cast("dict[LaneKey, int]", lanes), cast("dict[Policy, int]", policies))

    def _is_sure(self, key: LaneKey, now: float) -> bool:
        asked_at = self._asked_at.get(key)
        return asked_at is not None and now - asked_at < bounds.LANE_SURE

    def lane_number(self, queue: str, type: str, priority: Priority) -> Plan[int]:
        """Return the number of a lane; this plan's transaction makes it if it is new.

        The server is always asked: jobs are moved there, and nothing else would notice that a lane
        was lost.
        """
        if not queue:
            raise StoreError("the lane of this job is missing in the database; restore it")
        ((number,),) = yield Statement(f"select {LANE_NUMBER}", (queue, type, int(priority)))
        with self._mutex:
            if number not in self._lanes:
                self._unsure.add(number)
        return int(number)

    def lanes(self, numbers: Iterable[int]) -> Plan[dict[int, Lane]]:
        """Return lanes by number; a missing one has no names, so that other jobs are served."""
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
                self._lanes = Lanes()  # claims ask for theirs again
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
                is_full = len(self._policies) >= POLICIES_REMEMBERED_MAX
                self._policies = {**({} if is_full else self._policies), **found}
        return found


def holder_queues(asked: Iterable[tuple[Key, str]]) -> Plan[dict[str, str]]:
    """Return the queues of jobs that hold keys, by id, for keys that are confined to queues."""
    return (yield from queues_of({holder for key, holder in asked if key.within is not None}))


def queues_of(job_ids: Collection[str]) -> Plan[dict[str, str]]:
    """Return the queues of those jobs that exist, by id."""
    return dict((yield Statement(QUEUES, (sorted(job_ids),)))) if job_ids else {}

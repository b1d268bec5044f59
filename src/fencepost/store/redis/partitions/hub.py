"""The partitions of an app, each a Redis store of its own, and the home of what they share.

A plan of a partitioned store yields calls: operations on the stores of partitions. The calls of
one step do not depend on each other, and run at the same time where they are awaited.

The home keeps the list of partitions, and the settings that hold in all of them: pauses and limits
of types, and whether new jobs are accepted. A partition is created before its first job: the home
lists it first, then it copies those settings. Changing a setting writes to the home first, and then
to every partition that is listed there. So no partition is left out, whichever comes first.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fencepost.clock import Clock
from fencepost.core.bounds import POLL_INTERVAL
from fencepost.errors import StoreError, StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.store import Listener, Topic
from fencepost.store.notify import Listeners, LocalListener
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Statement, Wakes
from fencepost.store.redis.partitions.home import (
    add_strays,
    adopt,
    directory,
    note,
    quota_of,
    shared_settings,
    strays_of,
)
from fencepost.store.redis.partitions.numbers import (
    partition_of_id,
    prefix_of,
    stamping,
)
from fencepost.store.redis.partitions.outbox.news import note_changes
from fencepost.store.redis.store import RedisStore

T = TypeVar("T")

ALL, ANY = "all", "any"
"""The kinds of steps: every call has to succeed, or each has an answer or an error of its own."""
HOME = -1
SICK_MIN, SICK_MAX = 1.0, 30.0
"""Seconds for which claims leave a partition alone that was not available."""
ADOPT_TRIES = 10

LOOK = Declaration("partition_read", Effect.READ, has_content=False)
WRITE = Declaration("partition_write", Effect.WRITE)
SHARE = Declaration("partition_share", Effect.WRITE, Wakes.READY, has_content=False)


class PartitionCall(NamedTuple):
    """An operation on the store of one partition."""

    store: RedisStore
    operation: Operation[Any]


class Partition(RedisStore):
    """The store of one partition."""

    def __init__(
        self, url: str, number: int, *, clock: Clock, listeners: Listeners, **options: Any
    ) -> None:
        super().__init__(url, clock=clock, **options)
        self.number = number
        self._notifier.share(listeners)

    before_commit = staticmethod(note_changes)

    def plan(self, declaration: Declaration, plan: Any, *args: Any, **kwargs: Any) -> PartitionCall:
        """Return the call of a plan of our own."""
        started = partial(plan, self._env, *args, **kwargs)
        return PartitionCall(self, Operation(declaration, started, args))


class Hub:
    """The stores of partitions, opened when they are needed."""

    def __init__(
        self, url: str, prefix: str, *, clock: Clock, patience: float, durability: str | None
    ) -> None:
        self.clock = clock
        self._url = url
        self._prefix = prefix
        self._options: dict[str, Any] = {"patience": patience, "durability": durability}
        self._lock, self._hearing = threading.Lock(), threading.Lock()
        self.listeners = Listeners()
        self._ears: dict[Topic, int] = {}
        self._heard: dict[tuple[Topic, int], Listener] = {}
        self._open: dict[int, Partition] = {}
        self._is_closed = False
        self.known: set[int] = set()
        """The partitions that the home has noted, as it was seen last."""
        self.has_strays = False
        """Whether jobs were moved here whose ids name another partition than theirs."""
        self.bound: dict[str, int] = {}
        """The partition of each type that must be in one, as far as it was looked up."""
        self._founded: set[int] = set()
        self.behind: set[int] = set()
        """Partitions that were away when limits of types were declared: these are not claimed from
        before they have taken over what holds in all."""
        self._seen_at: float | None = None
        self._delivered_at: float | None = None
        self._sick: dict[int, tuple[float, float]] = {}

    @property
    def home(self) -> Partition:
        return self.at(HOME)

    def at(self, number: int) -> Partition:
        """Return the store of a partition."""
        with self._lock:
            found = self._open.get(number)
            if found is None:
                found = self._open[number] = self._make(number)
                if self._is_closed:
                    found.close()
        return found

    def _make(self, number: int) -> Partition:
        is_home = number == HOME
        prefix = self._prefix if is_home else prefix_of(self._prefix, number)
        clock = self.clock if is_home else stamping(self.clock, number)
        return Partition(
            self._url,
            number,
            clock=clock,
            prefix=prefix,
            listeners=self.listeners,
            **self._options,
        )

    def close(self) -> None:
        self._is_closed = True
        with self._lock:
            stores = list(self._open.values())
        for store in stores:
            store.close()
        self.listeners.close()

    # Steps of plans.

    def on(self, number: int, operation: Operation[T]) -> Plan[T]:
        """Run an operation in one partition."""
        (reply,) = yield from self.each([PartitionCall(self.at(number), operation)])
        found: T = reply
        return found

    def ask(self, number: int, declaration: Declaration, plan: Any, *args: Any) -> Plan[Any]:
        """Run a plan of our own in one partition."""
        (reply,) = yield from self.each([self.at(number).plan(declaration, plan, *args)])
        return reply

    def each(self, calls: Sequence[PartitionCall]) -> Plan[list[Any]]:
        """Make calls, all of which have to succeed; return their replies."""
        replies: list[Any] = yield Statement(ALL, list(calls))
        return replies

    def attempt(self, calls: Sequence[PartitionCall]) -> Plan[list[Any]]:
        """Make calls; return the reply or the error of each."""
        replies: list[Any] = yield Statement(ANY, list(calls))
        return replies

    # Which partitions there are.

    def refresh(self, *, is_needed: bool = True) -> Plan[set[int]]:
        """Return the partitions that there are; seen lately, unless it *is_needed* now."""
        now = self.clock.monotonic()
        is_old = self._seen_at is None or not 0 <= now - self._seen_at < POLL_INTERVAL
        if is_needed or is_old:
            numbers, strays = yield from self.ask(HOME, LOOK, directory)
            self.known, self.has_strays = set(numbers), strays
            self._seen_at = now
        return self.known

    def found(self, numbers: Iterable[int]) -> Plan[None]:
        """Make sure that partitions are noted, and have taken over what holds in all."""
        for number in sorted(set(numbers) - self._founded):
            yield from self.ask(HOME, SHARE, note, number)
            for _ in range(ADOPT_TRIES):
                limit = yield from self.ask(HOME, LOOK, quota_of)
                shared = yield from self.ask(HOME, LOOK, shared_settings)
                if not (yield from self.ask(number, SHARE, adopt, shared, limit)):
                    break
            self._founded.add(number)
            self.behind.discard(number)
            self.known.add(number)

    def leave_behind(self, number: int) -> None:
        """Note that a partition was away while something was declared in all."""
        self._founded.discard(number)
        self.behind.add(number)

    def catch_up(self) -> Plan[None]:
        """Have partitions that are back take over what holds in all."""
        for number in sorted(self.behind):
            if self.is_well(number):
                try:
                    yield from self.found([number])
                except StoreError as error:
                    self.judge(number, error)

    def whereabouts(self, job_ids: Sequence[str]) -> Plan[list[int]]:
        """Return the partition of each id: the one that it names, unless it was moved here."""
        numbers = [partition_of_id(job_id) for job_id in job_ids]
        if self.has_strays and job_ids:
            asked = [job_id.lower() for job_id in job_ids]
            found = yield from self.ask(HOME, LOOK, strays_of, asked)
            numbers = [
                number if stray is None else stray
                for number, stray in zip(numbers, found, strict=True)
            ]
        return numbers

    def find_strays(self, job_ids: Sequence[str]) -> Plan[set[str]]:
        """Return which jobs were moved here under an id that names another partition."""
        asked = [job_id.lower() for job_id in job_ids]
        found = (yield from self.ask(HOME, LOOK, strays_of, asked)) if asked else []
        return {job_id for job_id, at in zip(asked, found, strict=True) if at is not None}

    def note_strays(self, strays: dict[str, int]) -> Plan[None]:
        """Note ids that name another partition than theirs, before their jobs are stored."""
        if strays:
            self.has_strays = True
            yield from self.ask(HOME, WRITE, add_strays, strays)

    # What was not available lately.

    def is_well(self, number: int) -> bool:
        """Tell whether claims should ask a partition."""
        until = self._sick.get(number, (0.0, 0.0))[0]
        return until <= self.clock.monotonic()

    def judge(self, number: int, reply: Any) -> None:
        """Leave a partition alone for a while that was not available, longer each time."""
        if not isinstance(reply, BaseException):
            self._sick.pop(number, None)
            return
        pause = min(self._sick.get(number, (0.0, SICK_MIN / 2))[1] * 2, SICK_MAX)
        self._sick[number] = (self.clock.monotonic() + pause, pause)

    def is_delivery_due(self) -> bool:
        """Tell whether this process should look for entries of outboxes, as a second has passed."""
        now = self.clock.monotonic()
        if self._delivered_at is not None and 0 <= now - self._delivered_at < POLL_INTERVAL:
            return False
        self._delivered_at = now
        return True

    # Listening.

    def listen(self, topic: Topic) -> Listener:
        """Return a listener that hears of all partitions, also of those that come later."""
        with self._hearing:
            self._ears[topic] = self._ears.get(topic, 0) + 1
        for number in (HOME, *sorted(self.known)):
            self._follow(number)
        return _HubListener(self, self.listeners.listen(topic))

    def _follow(self, number: int) -> None:
        """Hear of what happens in a partition, as far as anything here listens."""
        with self._hearing:
            for topic in [topic for topic, count in self._ears.items() if count]:
                if (topic, number) not in self._heard:
                    self._heard[topic, number] = self.at(number).listen(topic)

    def hear_all(self) -> None:
        """Hear of partitions that have become known."""
        for number in sorted(self.known):
            self._follow(number)

    def leave(self, topic: Topic) -> None:
        """One less listens."""
        with self._hearing:
            self._ears[topic] -= 1
            gone = [at for at in self._heard if at[0] is topic] if not self._ears[topic] else []
            heard = [self._heard.pop(at) for at in gone]
        for each in heard:
            each.close()


class _HubListener:
    """A listener of this process, woken by what is heard of any partition."""

    def __init__(self, hub: Hub, listener: LocalListener) -> None:
        self._hub = hub
        self._listener = listener
        self._is_closed = False

    def wait(self, timeout: float) -> bool:
        self._hub.hear_all()
        return self._listener.wait(timeout)

    async def wait_async(self, timeout: float) -> bool:
        await asyncio.to_thread(self._hub.hear_all)
        return await self._listener.wait_async(timeout)

    def close(self) -> None:
        self._listener.close()
        if not self._is_closed:
            self._is_closed = True
            self._hub.leave(self._listener.topic)


def outcome_of(replies: Sequence[Any], calls: Sequence[PartitionCall]) -> list[Any]:
    """Return the replies of calls that all have to succeed, or raise.

    What was done in one partition is not undone because another was not available.
    """
    errors = [reply for reply in replies if isinstance(reply, BaseException)]
    if not errors:
        return list(replies)
    fatal = next((each for each in errors if not isinstance(each, StoreError)), None)
    if fatal is not None:
        raise fatal
    first = errors[0]
    writes = any(call.operation.effect is not Effect.READ for call in calls)
    is_partly_done = len(errors) < len(calls)
    if writes and is_partly_done and isinstance(first, StoreUnavailableError):
        raise UnknownOutcomeError(f"it was done in some partitions only: {first}") from first
    raise next((each for each in errors if isinstance(each, UnknownOutcomeError)), first)

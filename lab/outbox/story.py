"""What happens on a partitioned store, and who dies on the way.

A process makes calls to partitions. It dies before the N-th of them reaches its partition, or after
it was done and before anything else is. Whatever it held in memory is gone. Another process goes
on: it looks whether what was under way was done, and repeats what a careful caller would repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from fencepost.core.events import NewEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.flows.spawn import Numbers, keyed
from fencepost.core.job.job import Body, Category, ClaimedJob, Failure, Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Settlement, Succeeded, decide
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.control import Edit, RetryRequest
from fencepost.store.interface.queue import ClaimRequest, Spawn
from fencepost.store.interface.records.crons import CronDefinition, CronFire
from fencepost.store.plan import Operation
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.partitions.hub import LOOK as _LOOK
from fencepost.store.redis.partitions.hub import PartitionCall
from fencepost.store.redis.partitions.outbox.entries import NEWS_US, TYPES
from fencepost.store.redis.partitions.outbox.mirrors import is_mirror
from fencepost.store.redis.partitions.store import PartitionedStore
from fencepost.testing.clock import FakeClock

QUEUES = ("a", "b", "c")
ONCE = Policy(max_attempts=1)
PATIENT = Policy(max_attempts=5)
BROKEN = Failure(Category.PERMANENT, "it is broken")
ROUNDS_MAX = 60
TYPES_OF_JOBS = (
    *("one", "two", "both", "any", "broken", "lost", "ended", "after g", "after h"),
    *("mail", "index", "tick", "slow", "until all"),
    *("parent", "near", "far", "farther", "gather here", "gather there"),
)


class Kind(StrEnum):
    """When a process dies."""

    BEFORE = "before"
    AFTER = "after"


class Death(NamedTuple):
    """The call at which a process dies, counted from 1."""

    number: int
    kind: Kind


class Died(BaseException):
    """The process is gone."""


class MortalStore(PartitionedStore):
    """Counts calls, and dies at one of them."""

    death: Death | None = None

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self.calls: list[str] = []

    def call(self, call: PartitionCall) -> Any:
        self.calls.append(call.operation.name)
        death = self.death
        if death is None or death.number != len(self.calls):
            return super().call(call)
        if death.kind is Kind.AFTER:
            super().call(call)
        raise Died


def job(type: str, queue: str, *on: str | int, mode: Mode = Mode.ALL, **fields: Any) -> NewJob:
    after = Dependencies(on, mode) if on else fields.pop("after", None)
    return NewJob(type=type, queue=queue, after=after, **{"policy": PATIENT, **fields})


class Story:
    """Flows, events, crons and operators over three partitions, with one death."""

    def __init__(self, url: str, prefix: str, death: Death | None) -> None:
        self.clock = FakeClock()
        self._url, self._prefix = url, prefix
        self._store = self._open()
        self._store.death = death
        self.calls: list[str] = []
        self.has_died = False
        self.wrong: list[str] = []
        self._claims: Counter[str] = Counter()
        self._ended: dict[str, State] = {}

    def _open(self) -> MortalStore:
        return MortalStore(self._url, clock=self.clock, prefix=self._prefix)

    # Acting.

    def act(self, make: Callable[[MortalStore], Operation[Any]]) -> Any:
        """Run an operation; None if the process died of it, and another one goes on."""
        try:
            return self._store.run(make(self._store))
        except Died:
            self.calls += self._store.calls
            self.has_died = True
            self._store.close()
            self._store = self._open()
            return None

    def ensure(self, make: Callable[[MortalStore], Operation[Any]], flow: str, count: int) -> None:
        """Submit jobs of a flow; after a death, all of them are there, or none and they are sent
        again."""
        if self.act(make) is None:
            self.deliver()
            found = self.act(lambda store: store.reader.count(JobFilter(flow=flow)))
            if found not in (0, count):
                self.wrong.append(f"{found} of {count} jobs of {flow} were stored")
            if not found:
                self.act(make)

    def deliver(self) -> None:
        """Do what a leader does each second."""
        self.clock.advance(1)
        self.act(lambda store: store.upkeep.promote(100))

    def work(self) -> None:
        """Run jobs until nothing is left, as a worker that may be another one each time."""
        idle = 0
        for _ in range(ROUNDS_MAX):
            request = ClaimRequest(worker="w", limit=3, lease_ttl=5.0)
            claim = self.act(lambda store, r=request: store.queue.claim(r))  # type: ignore[misc]
            jobs = [] if claim is None else claim.jobs
            for each in jobs:
                self._started(each)
            is_alive = [self._spawn(each) for each in jobs]
            if jobs and all(is_alive):
                settled = [self._settlement(each) for each in jobs]
                self.act(lambda store, s=settled: store.queue.settle(s))  # type: ignore[misc]
            idle = 0 if jobs else idle + 1
            self.deliver()
            self.clock.advance(timedelta(seconds=3))
            self.act(lambda store: store.upkeep.recover(100))
            if idle > 4:
                return
        self.wrong.append("there was no end")

    def _settlement(self, claimed: ClaimedJob) -> Settlement:
        fails = claimed.type.startswith("broken") and claimed.tags.get("again") is None
        outcome = Failed(BROKEN) if fails else Succeeded(Body(f'"{claimed.type}"'.encode()))
        decision = decide(claimed, outcome, self.clock.rng)
        return Settlement(claimed.id, claimed.lease.token, decision)

    def _spawn(self, claimed: ClaimedJob) -> bool:
        """Let a parent spawn jobs into all partitions; tell whether its process is still there."""
        if claimed.type != "parent":
            return True
        new = (job("near", "a"), job("far", "b"), job("farther", "c", 1))
        children = keyed(claimed, new, Numbers()).jobs
        spawn = Spawn(claimed.id, claimed.lease.token, children)
        return self.act(lambda store: store.queue.spawn([spawn])) is not None

    def _started(self, claimed: ClaimedJob) -> None:
        self._claims[claimed.id] += 1
        awaited = self.act(lambda store: store.reader.dependencies([claimed.id], with_results=True))
        for own in awaited or ():
            modes = {each.state.is_terminal for each in own}
            is_any = claimed.type.endswith("any")
            if own and not (any(modes) if is_any else all(modes)):
                self.wrong.append(f"{claimed.type} ran before what it waits for had ended")

    # The story.

    def play(self) -> None:
        """Let it all happen."""
        self._flow()
        self._later()
        self._parent()
        self._event()
        self._cron()
        self.work()
        self._again()
        self.work()
        self.clock.advance(NEWS_US / 1e6)
        for _ in range(2):
            self.deliver()
        self._check()
        self.calls = self.calls or self._store.calls
        self._store.close()

    def _flow(self) -> None:
        jobs = [
            job("one", "a", flow="f"),
            job("two", "b", flow="f"),
            job("both", "c", 0, 1, flow="f"),
            job("any", "a", 1, 2, mode=Mode.ANY, flow="f"),
            job("broken", "b", 2, flow="f", policy=ONCE),
            job("lost", "c", 4, flow="f"),
            job("ended", "a", 4, 5, 3, mode=Mode.ENDED, flow="f"),
        ]
        self.ensure(lambda store: store.queue.enqueue(jobs, atomic=True), "f", len(jobs))

    def _later(self) -> None:
        """Jobs that wait for those of other partitions which are there."""
        first = {each.type: each.id for each in self._jobs(JobFilter(flow="f"))}
        both, broken = first.get("both", ""), first.get("broken", "")
        for name, queue, on, mode in (
            ("g", "b", (both,), Mode.ALL),
            ("h", "a", (both, broken), Mode.ENDED),
        ):
            new = [job(f"after {name}", queue, *on, mode=mode, flow=name)]
            self.ensure(lambda store, new=new: store.queue.enqueue(new), name, 1)  # type: ignore[misc]

    def _parent(self) -> None:
        """A job that is going to spawn others, and two that gather them."""
        new = [job("parent", "a", flow="s")]
        for name, queue in (("gather here", "a"), ("gather there", "b")):
            new.append(job(name, queue, flow="s", after=Dependencies((0,), gathers=True)))
        self.ensure(lambda store: store.queue.enqueue(new, atomic=True), "s", len(new))

    def _event(self) -> None:
        handlers = [job("mail", "b"), job("index", "c")]
        event = NewEvent("made", Body(b"1"))
        if self.act(lambda store: store.events.send(event, handlers)) is None:
            self.deliver()
            page = self.act(lambda store: store.events.list(None, PageRequest(10)))
            if not page.events:
                self.act(lambda store: store.events.send(event, handlers))

    def _cron(self) -> None:
        tick = self.clock.now() + timedelta(seconds=1)
        times: dict[str, Any] = {"name": "n", "expression": "* * * * *", "tz": "UTC"}
        cron = CronDefinition(**times, template=job("tick", "c"), next_tick=tick)
        fire = CronFire(**times, expected=tick, jobs=(job("tick", "c"),), next_tick=None)
        for _ in range(2):  # the second is told that it is not due, or does what the first did not
            self.act(lambda store: store.crons.declare([cron]))
            self.act(lambda store: store.crons.fire([fire]))

    def _again(self) -> None:
        """An operator runs again what was broken, while a job waits until it has ended."""
        (broken,) = self._jobs(JobFilter(type="broken"))
        new = [job("slow", "a", flow="i")]
        self.ensure(lambda store: store.queue.enqueue(new), "i", 1)
        (slow,) = self._jobs(JobFilter(flow="i"))
        waiting = [job("until all", "c", slow.id, broken.id, mode=Mode.ENDED, flow="j")]
        self.ensure(lambda store: store.queue.enqueue(waiting), "j", 1)
        self.act(lambda store: store.control.retry([RetryRequest(broken.id)]))
        if self._jobs(JobFilter(type="broken"))[0].state.is_terminal:  # whoever did it had died
            self.act(lambda store: store.control.retry([RetryRequest(broken.id)]))
        urgent = Edit(slow.id, priority=Priority.CRITICAL)
        if self.act(lambda store: store.control.edit([urgent])) is None:
            self.act(lambda store: store.control.edit([urgent]))
        self.deliver()
        (waiting_job,) = self._jobs(JobFilter(flow="j"))
        if waiting_job.waits is None or waiting_job.waits.missing != 2:
            self.wrong.append("nobody told that a job runs again")
        if waiting_job.priority is not Priority.CRITICAL:
            self.wrong.append("nobody told of a new priority")

    def _jobs(self, filter: JobFilter) -> list[Job]:
        page = self.act(lambda store: store.reader.find(filter, PageRequest(100)))
        if page is None:
            page = self.act(lambda store: store.reader.find(filter, PageRequest(100)))
        found: list[Job] = page.jobs
        return found

    # The verdict.

    def _check(self) -> None:
        jobs = self._jobs(JobFilter())
        expected = Counter(TYPES_OF_JOBS)
        found = Counter(each.type for each in jobs)
        if found != expected:
            self.wrong.append(f"there are {found - expected} too many, {expected - found} too few")
        for each in jobs:
            if not each.state.is_terminal:
                self.wrong.append(f"{each.type} is {each.state} for ever")
            is_bad = each.type in ("broken", "lost")
            if each.state.is_terminal and (each.state is State.COMPLETED) == is_bad:
                self.wrong.append(f"{each.type} ended as {each.state}")
            again = 1 + (each.type == "broken") + self.has_died
            if self._claims[each.id] > again:
                self.wrong.append(f"{each.type} was handed out {self._claims[each.id]} times")
        self._check_gathered(jobs)
        self._check_entries()

    def _check_gathered(self, jobs: Sequence[Job]) -> None:
        """Those that gather began after all that was spawned had ended."""
        ends = [each.completed_at for each in jobs if each.type in ("near", "far", "farther")]
        for each in jobs:
            began = each.started_at
            is_early = began is not None and any(end is None or end > began for end in ends)
            if each.type.startswith("gather") and is_early:
                self.wrong.append(f"{each.type} did not wait for what was spawned")

    def _check_entries(self) -> None:
        hub = self._store._hub
        for number in sorted(hub.known):
            for kept in hub.at(number).run(hub.at(number).plan(_LOOK, _all).operation):
                if kept.type in TYPES and not kept.state.is_terminal:
                    self.wrong.append(f"partition {number} keeps a {kept.type} ({kept.state})")
                if is_mirror(kept) and not kept.state.is_terminal:
                    self.wrong.append(f"partition {number} has a mirror of {kept.type} that waits")


def _all(env: Any) -> Any:
    unit = Unit(env)
    (last,) = yield from unit.read([b"GET", env.key("seq")])
    return list((yield from unit.jobs(range(1, int(last or 0) + 1))).values())

"""How each figure is measured, once, for one peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from bench.children import ChildFailedError
from bench.figures import percentile
from bench.peers.catalog import Peer
from bench.peers.grounds import Ground, Grounds, PostgresGround
from bench.peers.processes import NAP_SECONDS, Answer, Order, Program, Programs
from bench.peers.results import Name, Reading, Sizes
from bench.peers.trace import Trace, quarters

WARM_UP = 30
TICK = 0.002
START_SECONDS = 60.0
SILENT_SECONDS = 2.0
"""A worker that has noted nothing for so long may be through, however little it noted."""
ASK_MAX = 0.5
PICKUP_SECONDS = 20.0
"""How long one waits for the last job to be picked up."""
NAPS = 12
BEGUN_SECONDS = 0.7
"""From the first job that begins to the kill: most workers have taken all that they take."""


class Watched(NamedTuple):
    """A drain: how many jobs were done, in how many seconds, and whether all of them were."""

    done: int
    seconds: float
    is_cut: bool


class Measurements:
    """Everything that can be measured."""

    def __init__(self, programs: Programs, grounds: Grounds, sizes: Sizes) -> None:
        self._programs = programs
        self._grounds = grounds
        self._sizes = sizes
        self._clock = programs.clock

    def take(self, figure: Name, peer: Peer) -> Reading:
        """Measure one figure of one peer."""
        match figure:
            case "submit":
                return self._submit(peer, "singles", self._sizes.singles)
            case "bulk":
                return self._submit(peer, "bulk", self._sizes.jobs)
            case "drain":
                return self._drain(peer, 1)
            case "drain-2":
                return self._drain(peer, 2)
            case "backlog":
                return self._backlog(peer)
            case "pickup":
                return self._pickup(peer, "idle", self._sizes.samples)
            case "pickup-busy":
                return self._pickup(peer, "steady", self._sizes.steady)
            case "killed":
                return self._killed(peer)
            case "snapshot":
                return self._snapshot(peer)

    def _submit(self, peer: Peer, how: str, count: int) -> Reading:
        with (
            self._grounds.of(peer).empty(peer) as url,
            self._programs.submitting(peer, url) as program,
        ):
            program.ask(Order("singles", WARM_UP))
            return Reading(rate=count / program.ask(Order(how, count)).seconds)

    # Drains.

    def _drain(self, peer: Peer, processes: int) -> Reading:
        ground = self._grounds.of(peer)
        with ground.filled(peer, self._sizes.jobs) as url:
            watched, _ = self._watch(peer, ground, url, self._sizes.jobs, processes=processes)
        return _rate(watched)

    def _backlog(self, peer: Peer) -> Reading:
        """Drain a part of a long line, and a short one as far as that for comparison.

        The next round goes on where this one ended.
        """
        ground = self._grounds.of(peer)
        url = ground.kept(peer, self._sizes.backlog)
        usual = self._drain(peer, 1)
        watched, _ = self._watch(peer, ground, url, self._sizes.jobs, processes=1)
        return msgspec.structs.replace(_rate(watched), usual=usual.rate)

    def _snapshot(self, peer: Peer) -> Reading:
        """Drain while a transaction of somebody else has been open since before the first job."""
        ground = self._grounds.of(peer)
        assert isinstance(ground, PostgresGround)
        count = self._sizes.passing
        with ground.filled(peer, count) as url, ground.held_snapshot(url):
            watched, trace = self._watch(peer, ground, url, count, processes=1)
        parts = quarters(trace.steps)
        if parts is None:
            return Reading(error="too few jobs ran")
        return Reading(
            rate=watched.done / watched.seconds,
            is_cut=watched.is_cut,
            first_quarter=parts.first,
            last_quarter=parts.last,
        )

    def _watch(
        self, peer: Peer, ground: Ground, url: str, count: int, *, processes: int
    ) -> tuple[Watched, Trace]:
        """Have *count* jobs of a store done, from the first start until the store says so."""
        trace = self._programs.trace(peer)
        with ground.counting(peer, url) as remaining:
            before = remaining()
            with self._programs.working(peer, url, trace, processes) as team:
                found = self._until_done(team, trace, remaining, before, count)
        return found, trace

    def _until_done(
        self,
        team: list[Program],
        trace: Trace,
        remaining: Callable[[], int],
        before: int,
        count: int,
    ) -> Watched:
        """Read the trace until it says that the jobs may be done, and only then ask the store."""
        clock = self._clock
        heard_at, heard, ask_at = clock.monotonic(), 0, 0.0
        while True:
            trace.read()
            _check(team)
            now = clock.monotonic()
            if trace.ran > heard:
                heard, heard_at = trace.ran, now
            if not heard and now - heard_at > START_SECONDS:
                raise ChildFailedError(f"no job began in {START_SECONDS:g} s")
            passed = (clock.now_us() - trace.steps[0].at) / 1e6 if heard else 0.0
            is_late = passed > self._sizes.drain_seconds
            may_be_done = trace.ran + trace.unseen >= count or now - heard_at > SILENT_SECONDS
            if heard and (is_late or (may_be_done and now > ask_at)):
                asked = clock.now_us()
                done = before - remaining()
                if is_late or done >= count:
                    # A store that was found empty was so when it answered; else it was asked.
                    at = clock.now_us() if before == done else asked
                    return Watched(done, (at - trace.steps[0].at) / 1e6, is_cut=done < count)
                # To ask costs the server something: more seldom while much is left.
                ask_at = now + min((count - done) * passed / trace.ran / 4, ASK_MAX)
            clock.sleep(TICK)

    # Pickups.

    def _pickup(self, peer: Peer, how: str, count: int) -> Reading:
        trace = self._programs.trace(peer)
        with (
            self._grounds.of(peer).empty(peer) as url,
            self._programs.working(peer, url, trace) as team,
            self._programs.submitting(peer, url) as program,
        ):
            program.ask(Order(how, WARM_UP))
            self._wait_for(team, trace, WARM_UP, START_SECONDS)
            answer = program.ask(Order(how, count, first=WARM_UP))
            self._wait_for(team, trace, WARM_UP + count, PICKUP_SECONDS)
        return picked_up(answer, trace)

    def _wait_for(self, team: list[Program], trace: Trace, count: int, seconds: float) -> None:
        """Return when so many jobs have begun, or after *seconds*."""
        deadline = self._clock.monotonic() + seconds
        while len(trace.began) < count and self._clock.monotonic() < deadline:
            self._clock.sleep(TICK)
            trace.read()
            _check(team)

    # A worker that is killed.

    def _killed(self, peer: Peer) -> Reading:
        """Kill a worker in the middle of its jobs, start another at once, and see what becomes."""
        trace = self._programs.trace(peer)
        with self._grounds.of(peer).empty(peer) as url:
            with self._programs.submitting(peer, url) as program:
                program.ask(Order("naps", NAPS))
            with self._programs.working(peer, url, trace) as team:
                self._wait_for(team, trace, 1, START_SECONDS)
                self._clock.sleep(BEGUN_SECONDS)
                team[0].kill()
                killed_at = self._clock.now_us()
                trace.read()
            interrupted = sorted(trace.began)
            with self._programs.working(peer, url, trace) as team:
                self._until_ended(team, trace, killed_at)
        return survived(trace, interrupted, killed_at)

    def _until_ended(self, team: list[Program], trace: Trace, killed_at: int) -> None:
        deadline = killed_at + int(self._sizes.killed_seconds * 1e6)
        while len(trace.ended) < NAPS and self._clock.now_us() < deadline:
            self._clock.sleep(NAP_SECONDS / 20)
            trace.read()
            _check(team)


def picked_up(answer: Answer, trace: Trace) -> Reading:
    """Return how long jobs waited, from the call that submitted them to their first start."""
    waits = [
        (trace.began[number][0] - called_at) / 1e3
        for number, called_at in answer.calls
        if number in trace.began
    ]
    if not waits:
        return Reading(error="no job was picked up")
    missing = len(answer.calls) - len(waits)
    # One that was never picked up waited longer than all others.
    every = waits + [max(waits)] * missing
    return Reading(p50=percentile(every, 0.5), p99=percentile(every, 0.99), missing=missing)


def survived(trace: Trace, interrupted: list[int], killed_at: int) -> Reading:
    """Return what became of the jobs of a worker that was killed, and of those that waited."""
    again = [
        min(at for at in trace.began[number] if at > killed_at)
        for number in interrupted
        if trace.began[number][-1] > killed_at
    ]
    waiting = [number for number in range(NAPS) if number not in interrupted]
    return Reading(
        interrupted=len(interrupted),
        again=len(again),
        after=(max(again) - killed_at) / 1e6 if again else None,
        stuck=sum(number not in trace.began for number in waiting),
    )


def _rate(watched: Watched) -> Reading:
    return Reading(rate=watched.done / watched.seconds, is_cut=watched.is_cut)


def _check(team: list[Program]) -> None:
    for program in team:
        if not program.is_running:
            raise ChildFailedError(f"a worker ended: {program.last_words()}")

"""The rules of time: lost leases are recovered soon, and a worker that lost one stops soon.

Both are promised only of processes that run and are connected, so it is followed which are.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from lab.simulation.history import Ended, Operated, Snapshot, Started, Turn
from lab.simulation.verdict import Verdict

RECOVERY_MAX = 1.0
"""Seconds after the end of a lease within which its job is taken back."""
LATENCY_ALLOWED = 0.25
WELL_FOR = 6.0
"""Seconds after which a process that was disturbed is as it was: pauses between attempts to reach
a store that was away last up to five."""
INTERRUPTION_MAX = 2.0
"""Seconds of its own time after which a handler without a lease has been interrupted."""


class Life:
    """One process, as far as others can rely on it."""

    def __init__(self, at: float) -> None:
        self.well_since = at
        """Infinity while it is not."""
        self.free_since = at
        self.occupied = 0
        self.is_terminated = False
        self.is_gone = False
        self.connected_at = -math.inf
        """When its driver last gave up on what had hung."""
        self.troubles: set[str] = {"young"}
        self.pauses: list[tuple[float, float]] = []

    def held_up(self, start: float, end: float) -> float:
        """Return for how long of the time between it could do nothing."""
        return sum(max(min(end, b) - max(start, a), 0.0) for a, b in self.pauses)


BEGINNINGS = {"stopped": "continued", "blocked": "unblocked", "cut off": "connected"}
ENDINGS = {end: begin for begin, end in BEGINNINGS.items()}


class TimeRules:
    """Knows who is well, which leases run out, and which handlers run without one."""

    def __init__(self, verdict: Verdict, running: dict[str, Snapshot], concurrency: int) -> None:
        self._verdict = verdict
        self._running = running
        self._concurrency = concurrency
        self._lives: dict[str, Life] = {}
        self._ends: list[tuple[float, float, str, str]] = []
        self._handlers: dict[tuple[str, str], Started] = {}
        self._granted: dict[str, float] = {}
        """When each lease was last said to end."""
        self._start_us: int | None = None
        self.is_healed = False

    def pass_to(self, at: float) -> None:
        """Judge every lease that should have been taken back before *at*."""
        while self._ends and self._ends[0][0] < at:
            deadline, ends, job_id, token = heappop(self._ends)
            job = self._running.get(job_id)
            is_left = job is not None and job.token == token and self._granted[token] == ends
            if is_left and self._is_anybody_well(ends, deadline):
                text = f"the lease of {job_id} ran out at {ends:.3f} s, and nobody took it back"
                self._verdict.accuse("recovery", deadline, text)

    def _is_anybody_well(self, start: float, end: float) -> bool:
        return (
            any(
                life.well_since <= start - WELL_FOR and life.free_since <= start
                for name, life in self._lives.items()
                if name.startswith("worker")
            )
            and end >= start
        )

    # The store.

    def note_operation(self, event: Operated, before: dict[str, Snapshot]) -> None:
        """Follow leases; *before* is how the jobs stood that the operation changed."""
        if self._start_us is None:
            self._start_us = event.now - round(event.at * 1_000_000)
        for change in event.changes:
            if change.state == "running" and change.token and change.ends_at:
                ends = (change.ends_at - self._start_us) / 1_000_000
                self._granted[change.token] = ends
                deadline = ends + RECOVERY_MAX + LATENCY_ALLOWED
                heappush(self._ends, (deadline, ends, change.job_id, change.token))
                continue
            old = before.get(change.job_id)
            if old is None or old.token is None or event.name not in ("claim", "recover"):
                continue
            ends = self._granted[old.token]
            if ends <= event.at:
                well = self._is_anybody_well(ends, event.at)
                times = self._verdict.recoveries if well else self._verdict.other_recoveries
                times.append(event.at - ends)

    # Processes.

    def note_turn(self, event: Turn) -> None:
        at, what = event.at, event.what
        if what == "booted":
            life = self._lives[event.process] = Life(at)
            life.troubles.clear()
            return
        life = self._lives[event.process]
        if what in BEGINNINGS:
            if what != "cut off" and not life.troubles & {"stopped", "blocked"}:
                life.pauses.append((at, math.inf))
            life.troubles.add(what)
            life.well_since = math.inf
        elif what in ENDINGS:
            life.troubles.discard(ENDINGS[what])
            life.connected_at = at if what == "connected" else life.connected_at
            self._recuperate(life, at)
        elif what == "terminated":
            life.is_terminated = True
            life.well_since = math.inf
        else:
            self._bury(event, life)

    def _recuperate(self, life: Life, at: float) -> None:
        is_paused = bool(life.pauses) and life.pauses[-1][1] == math.inf
        if is_paused and not life.troubles & {"stopped", "blocked"}:
            life.pauses[-1] = (life.pauses[-1][0], at)
        # Of one that is gone, others still say that it is connected.
        is_over = life.is_gone or life.is_terminated
        if not life.troubles and not is_over and life.well_since == math.inf:
            life.well_since = at

    def _bury(self, event: Turn, life: Life) -> None:
        life.is_gone = True
        life.well_since = math.inf
        is_worker = event.process.startswith("worker")
        if is_worker and event.what == "ended" and not life.is_terminated:
            self._verdict.accuse("ended by itself", event.at, event.process)
        for key in [key for key in self._handlers if key[0] == event.process]:
            del self._handlers[key]

    # Handlers.

    def note_start(self, event: Started) -> None:
        self._handlers[event.process, event.token] = event
        life = self._lives[event.process]
        life.occupied += 1
        if life.occupied >= self._concurrency:
            life.free_since = math.inf

    def well_since(self, process: str) -> float:
        """Return since when a process has been as it should be; infinity if it is not."""
        return self._lives[process].well_since

    def note_end(self, event: Ended) -> None:
        started = self._handlers.pop((event.process, event.token), None)
        life = self._lives[event.process]
        life.occupied -= 1
        if life.free_since == math.inf:
            life.free_since = event.at
        if started is not None and not started.is_stubborn:
            self._judge_handler(started, event.at)

    def _judge_handler(self, started: Started, at: float) -> None:
        ends = self._granted.get(started.token, math.inf)
        late = at - ends - self._lives[started.process].held_up(ends, at)
        if late > INTERRUPTION_MAX:
            text = f"{started.process} ran {started.job_id} {late:.3f} s after its lease"
            self._verdict.accuse("not interrupted", at, text)

    def finish(self, at: float) -> None:
        """Judge who has not ended though it should have."""
        for started in self._handlers.values():
            if not started.is_stubborn:
                self._judge_handler(started, at)
        for name, life in self._lives.items():
            # One whose claim hangs waits for its driver, which may take a minute to give up.
            is_hanging = "cut off" in life.troubles or at - life.connected_at < WELL_FOR
            is_left = name.startswith("worker") and not life.is_gone and self.is_healed
            if is_left and life.is_terminated and not is_hanging:
                self._verdict.accuse("did not stop", at, name)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which *share* of *values* lie; 0 when there are none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

"""Runs scenarios with a fault at every call, and reports what did not hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from unittest.mock import patch

import msgspec

from fencepost.worker import Worker
from lab.nth.faults import CALLS_MAX, Fault, FaultyStore, Kind
from lab.nth.invariants import broken
from lab.nth.loop import LoopClock, LoopHeartbeater, StuckError, run_on
from lab.nth.scenarios import SCENARIOS, Scenario
from lab.nth.stores import KINDS, Shelf, shelf
from lab.nth.world import World

FAILURES_MAX = 20
"""After so many, more of them tell nothing new."""


class Finding(msgspec.Struct, frozen=True):
    """A run after which a promise did not hold; store, scenario, number and kind repeat it."""

    store: str
    scenario: str
    number: int
    """Of the call that failed; 0 if none did."""
    kind: str
    call: str
    broken: list[str]


class Report(msgspec.Struct):
    """What was run and what was found."""

    stores: list[str]
    scenarios: int = 0
    calls: int = 0
    """Calls in the runs in which nothing failed: what there is to fail."""
    faults: int = 0
    stale_writes_refused: int = 0
    seconds: float = 0.0
    failures: list[Finding] = []


class Outcome(msgspec.Struct, frozen=True):
    """One run."""

    broken: list[str]
    calls: list[str]
    has_failed: bool
    refused: int


def run(
    *,
    stores: Sequence[str] = KINDS,
    scenarios: Sequence[str] = (),
    stride: int = 1,
    offset: int = 0,
    postgres_url: str | None = None,
    redis_url: str | None = None,
    failures_max: int = FAILURES_MAX,
) -> Report:
    """Run every scenario with every fault, or with each *stride*-th call from *offset* on."""
    start = time.perf_counter()
    report = Report(stores=list(stores))
    chosen = [each for each in SCENARIOS if not scenarios or each.name in scenarios]
    for kind in stores:
        with shelf(kind, {"postgres": postgres_url, "redis": redis_url}.get(kind)) as opened:
            sweeps = [
                Sweep(report, kind, opened, scenario, failures_max)
                for scenario in chosen
                if kind == "postgres" or not scenario.is_for_postgres_only
            ]
            # First all of them without a fault: what is broken anyway shows at once.
            for sweep in sweeps:
                sweep.begin()
            for sweep in sweeps:
                sweep.go_on(stride, offset)
    report.seconds = time.perf_counter() - start
    return report


class Sweep:
    """One scenario on one store, with every fault."""

    def __init__(
        self, report: Report, kind: str, opened: Shelf, scenario: Scenario, failures_max: int
    ) -> None:
        self._report = report
        self._kind = kind
        self._opened = opened
        self._scenario = scenario
        self._failures_max = failures_max

    def begin(self) -> None:
        """Let nothing fail."""
        if len(self._report.failures) < self._failures_max:
            self._report.scenarios += 1
            self._report.calls += len(self._play(None).calls)

    def go_on(self, stride: int, offset: int) -> None:
        """Let the first call fail, then the second, … until there are no more."""
        for number in range(1 + offset % stride, CALLS_MAX, stride):
            outcomes = []
            for when in Kind:
                if len(self._report.failures) >= self._failures_max:
                    return
                outcomes.append(self._play(Fault(number, when)))
            if not any(outcome.has_failed for outcome in outcomes):
                return

    def _play(self, fault: Fault | None) -> Outcome:
        report = self._report
        outcome = play(self._opened, self._scenario, fault)
        report.faults += outcome.has_failed
        report.stale_writes_refused += outcome.refused
        if outcome.broken:
            report.failures.append(self._finding(fault, outcome))
        return outcome

    def _finding(self, fault: Fault | None, outcome: Outcome) -> Finding:
        number = 0 if fault is None else fault.number
        call = outcome.calls[number - 1] if 0 < number <= len(outcome.calls) else ""
        kind = "" if fault is None else fault.kind.value
        return Finding(self._kind, self._scenario.name, number, kind, call, outcome.broken)


def play(opened: Shelf, scenario: Scenario, fault: Fault | None) -> Outcome:
    """Run one scenario with one fault, or with none."""
    with closing(opened.open(LoopClock())) as store, _quietly():
        faulty = FaultyStore(store, fault)
        world = World(faulty)
        try:
            run_on(faulty.clock, scenario.play(world))  # type: ignore[arg-type]  # it is one
        except (StuckError, Exception) as error:  # noqa: BLE001 - whatever it is, it is a finding
            world.complaints.append(f"{type(error).__name__}: {error}")
        wrong = broken(world, is_faulty=faulty.has_failed)
        return Outcome(wrong, faulty.calls, faulty.has_failed, faulty.audit.refused)


@contextmanager
def _quietly() -> Iterator[None]:
    """Run workers with their heartbeat on the loop, and without a word about what fails."""
    logger = logging.getLogger("fencepost")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with patch.object(Worker, "_heartbeater_class", LoopHeartbeater):
            yield
    finally:
        logger.setLevel(level)

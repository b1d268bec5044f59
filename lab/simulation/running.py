"""Runs seeds one after the other and adds up what they say."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from fencepost.clock import SystemClock
from fencepost.observe.log import logger
from lab.simulation.checker import check
from lab.simulation.history import Event, Fault
from lab.simulation.report import Failure, Report
from lab.simulation.timing import percentile
from lab.simulation.verdict import Verdict, Violation
from lab.simulation.world import MakeStore, Plan, World


class Lived(msgspec.Struct, frozen=True):
    """One seed, lived through and judged."""

    seed: int
    simulated_seconds: float
    callbacks: int
    history: list[Event]
    digest: str
    verdict: Verdict


def live(seed: int, plan: Plan | None = None, make_store: MakeStore | None = None) -> Lived:
    """Live one seed through, and judge it."""
    plan = plan or Plan()
    world = World(seed, plan, make_store)
    error: Exception | None = None
    try:
        with _quiet():
            world.run()
    except Exception as raised:  # noqa: BLE001 - a planted bug may break anything, here as well
        error = raised
    verdict = check(world.history.events, concurrency=plan.concurrency)
    if error is not None:
        verdict.violations.insert(0, Violation("broke", world.scheduler.time, repr(error)))
    scheduler = world.scheduler
    return Lived(
        seed,
        scheduler.time,
        scheduler.steps,
        world.history.events,
        world.history.digest(),
        verdict,
    )


def run(
    seeds: Iterable[int],
    *,
    plan: Plan | None = None,
    hours: float | None = None,
    make_store: MakeStore | None = None,
) -> Report:
    """Live all of *seeds* through or, with *hours*, as many as make so many simulated hours."""
    clock = SystemClock()
    started_at, cpu_started_at = clock.monotonic(), time.process_time()
    faults: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    recoveries: list[float] = []
    failures: list[Failure] = []
    digest = hashlib.sha256()
    simulated = 0.0
    for seed in seeds:
        lived = live(seed, plan, make_store)
        simulated += lived.simulated_seconds
        digest.update(lived.digest.encode())
        faults.update(event.kind for event in lived.history if isinstance(event, Fault))
        verdict = lived.verdict
        sums["seeds"] += 1
        sums["callbacks"] += lived.callbacks
        for name in SUMMED:
            sums[name] += getattr(verdict, name)
        recoveries += verdict.recoveries
        if verdict.violations:
            violations = [str(each) for each in verdict.violations]
            failures.append(Failure(seed, violations, _command(seed, plan or Plan())))
        if hours is not None and simulated >= hours * 3600:
            break
    return Report(
        seeds=sums["seeds"],
        callbacks=sums["callbacks"],
        simulated_seconds=simulated,
        real_seconds=clock.monotonic() - started_at,
        cpu_seconds=time.process_time() - cpu_started_at,
        faults=dict(faults),
        **{name: sums[name] for name in SUMMED},
        recoveries=len(recoveries),
        recovery_p50=percentile(recoveries, 0.5),
        recovery_p99=percentile(recoveries, 0.99),
        recovery_max=max(recoveries, default=0.0),
        failures=failures,
        digest=digest.hexdigest(),
    )


def _command(seed: int, plan: Plan) -> str:
    options = f"--seeds {seed} --seconds {plan.seconds:g} --workers {plan.workers}"
    return f"python -m lab.simulation {options}"


SUMMED = ("acknowledged", "lost", "attempts", "settled", "stale_refused", "superseded")


@contextmanager
def _quiet() -> Iterator[None]:
    """Write no log: it would cost more than the simulation does."""
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)

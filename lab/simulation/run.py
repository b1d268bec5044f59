"""Runs seeds, in several processes if asked to, and adds up what they say."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context

import msgspec

from fencepost.clock import SystemClock
from fencepost.observe.log import logger
from lab.simulation.checker import check
from lab.simulation.history import Event, Fault
from lab.simulation.report import Failure, Report
from lab.simulation.scenes import Scene
from lab.simulation.time_rules import percentile
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
    is_prompt = plan.scene is Scene.DEFAULTS
    verdict = check(world.history.events, concurrency=plan.slots, is_prompt=is_prompt)
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


class Told(msgspec.Struct, frozen=True):
    """What one seed adds to a report; small enough to be sent by a process."""

    seed: int
    simulated_seconds: float
    cpu_seconds: float
    callbacks: int
    digest: str
    faults: dict[str, int]
    sums: dict[str, int]
    recoveries: list[float]
    violations: list[str]


def tell(seed: int, plan: Plan | None = None, make_store: MakeStore | None = None) -> Told:
    """Live one seed through, and keep only what counts."""
    started_at = time.process_time()
    lived = live(seed, plan, make_store)
    verdict = lived.verdict
    return Told(
        seed,
        lived.simulated_seconds,
        time.process_time() - started_at,
        lived.callbacks,
        lived.digest,
        Counter(event.kind for event in lived.history if isinstance(event, Fault)),
        {name: getattr(verdict, name) for name in SUMMED},
        verdict.recoveries,
        [str(each) for each in verdict.violations],
    )


def run(
    seeds: Iterable[int],
    *,
    plan: Plan | None = None,
    hours: float | None = None,
    make_store: MakeStore | None = None,
    jobs: int = 1,
) -> Report:
    """Live all of *seeds* through or, with *hours*, as many as make so many simulated hours.

    Seeds do not know of each other: so many *jobs* at once give the same report, sooner.
    """
    clock = SystemClock()
    started_at = clock.monotonic()
    all_told: list[Told] = []
    simulated = 0.0
    for told in _in_order(seeds, partial(tell, plan=plan, make_store=make_store), jobs):
        all_told.append(told)
        simulated += told.simulated_seconds
        if hours is not None and simulated >= hours * 3600:
            break
    return _report(all_told, plan or Plan(), clock.monotonic() - started_at)


def _in_order(seeds: Iterable[int], work: Callable[[int], Told], jobs: int) -> Iterator[Told]:
    if jobs <= 1:
        yield from map(work, seeds)
        return
    # Fresh processes: what a fork would inherit of this one must not matter to a seed.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        rest = iter(seeds)
        ahead = deque(pool.submit(work, seed) for seed in islice(rest, 2 * jobs))
        try:
            while ahead:
                told = ahead.popleft().result()
                ahead.extend(pool.submit(work, seed) for seed in islice(rest, 1))
                yield told
        finally:
            # By the pool: Python 3.11.2 waits for ever for a last future that was cancelled alone.
            pool.shutdown(cancel_futures=True)


def _report(all_told: Sequence[Told], plan: Plan, real_seconds: float) -> Report:
    faults: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for told in all_told:
        faults.update(told.faults)
        sums.update(told.sums)
    recoveries = [each for told in all_told for each in told.recoveries]
    digests = "".join(told.digest for told in all_told)
    return Report(
        seeds=len(all_told),
        callbacks=sum(told.callbacks for told in all_told),
        simulated_seconds=sum(told.simulated_seconds for told in all_told),
        real_seconds=real_seconds,
        cpu_seconds=sum(told.cpu_seconds for told in all_told),
        faults=dict(faults),
        **{name: sums[name] for name in SUMMED},
        recoveries=len(recoveries),
        recovery_p50=percentile(recoveries, 0.5),
        recovery_p99=percentile(recoveries, 0.99),
        recovery_max=max(recoveries, default=0.0),
        failures=[
            Failure(told.seed, told.violations, _command(told.seed, plan))
            for told in all_told
            if told.violations
        ],
        digest=hashlib.sha256(digests.encode()).hexdigest(),
    )


def _command(seed: int, plan: Plan) -> str:
    options = f"--seeds {seed} --seconds {plan.seconds:g} --workers {plan.workers}"
    if plan.scene is not Scene.PLAIN:
        options += f" --scene {plan.scene}"
    return f"python -m lab.simulation {options}"


SUMMED = (
    *("acknowledged", "lost", "attempts", "settled", "stale_refused", "superseded"),
    *("events", "ticks", "webhooks"),
)


@contextmanager
def _quiet() -> Iterator[None]:
    """Write no log: it would cost more than the simulation does."""
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)

"""The nemesis, in a process of its own: ``SETTINGS``.

It sets the stage and the crew, injects faults until its time is over, mends everything, waits for
the last job to end, and writes down what the store says then. It owns every other process of the
run, and ends them all when it ends, also by SIGTERM or when its own parent is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from random import Random

import msgspec

from fencepost.core.job.lifecycle import LIVE
from fencepost.errors import StoreError
from fencepost.store.interface.store import Store
from lab.chaos import dump
from lab.chaos.crew import API, CALLER, WORKER, ZOMBIE, Crew, Member
from lab.chaos.dump import Closing
from lab.chaos.entries import Calm, Struck, Tried
from lab.chaos.faults import FAULTS, Fault, NotNow
from lab.chaos.faults.fault import Scene
from lab.chaos.gate import Gate
from lab.chaos.ledger import Follower, Ledger
from lab.chaos.settings import Settings
from lab.chaos.stage import SqliteStage, Stage
from lab.chaos.tasks import BAIT_QUEUE

CLOSING = "closing.json"
LOOK_INTERVAL = 0.1
TEND_INTERVAL = 0.1
WARM_UP = 60.0
FIRST_TRIES = 300
"""Stale writes that were tried before the first fault: on a busy machine the zombie comes late."""
DRAIN_PATIENCE = 120.0


class Interrupted(BaseException):
    """The run is to end at once."""


def rounds(kinds: tuple[str, ...], rng: Random) -> Iterator[tuple[Fault, bool]]:
    """Return faults for ever, each kind in every round, and whether it is of the first round."""
    is_first = True
    while True:
        drawn = [
            FAULTS[name] for name in kinds for _ in range(1 if is_first else FAULTS[name].weight)
        ]
        rng.shuffle(drawn)
        for fault in drawn:
            yield fault, is_first
        is_first = False


class Nemesis:
    """Injects faults, and counts them."""

    def __init__(self, scene: Scene, ledger: Ledger) -> None:
        self._scene = scene
        self._ledger = ledger
        self.injected: Counter[str] = Counter()
        self.failed: dict[str, str] = {}

    def inject(self) -> None:
        """Strike until the time is over, and every kind has had its turn."""
        settings, clock = self._scene.settings, self._scene.clock
        deadline = clock.monotonic() + settings.seconds
        for fault, is_first in rounds(settings.kinds, Random(f"{settings.seed} rounds")):
            if clock.monotonic() > deadline and not is_first:
                return
            self._strike(fault)
            self._scene.wait(settings.pause * 0.2, settings.pause * 1.8)

    def _strike(self, fault: Fault) -> None:
        began = self._ledger.now()
        try:
            fault.strike(self._scene)
        except NotNow as reason:
            self.failed[fault.name] = str(reason)
        else:
            self.injected[fault.name] += 1
        finally:
            until = self._ledger.now()
            self._ledger.note(Struck(began, fault.name, until, fault.is_wide))


def make_stage(settings: Settings) -> Stage:
    if settings.store == "sqlite":
        return SqliteStage(settings)
    if settings.is_group:
        from lab.chaos.redis_groups import ClusterStage, SentinelStage

        return (SentinelStage if settings.layout == "sentinel" else ClusterStage)(settings)
    if settings.store == "redis":
        from lab.chaos.redis_server import RedisStage

        return RedisStage(settings)
    from lab.chaos.servers import PostgresStage

    return PostgresStage(settings, has_standby="failover" in settings.kinds)


def make_gate(settings: Settings, ledger: Ledger) -> Gate | None:
    """Return the way to the API, if workers come by that."""
    return None if settings.fleet == "python" else Gate(ledger.clock, settings.seed)


def tend(crew: Crew, clock_sleep: float, is_over: threading.Event) -> None:
    """Keep the crew in number until it is over."""
    while not is_over.wait(clock_sleep):
        crew.tend()


def await_first_jobs(store: Store, scene: Scene) -> None:
    """Return when jobs flow: what comes before is no test of anything."""
    deadline = scene.clock.monotonic() + WARM_UP
    while scene.clock.monotonic() < deadline:
        with suppress(StoreError):
            if dump.counts(store).get("completed", 0) > 0:
                return
        scene.clock.sleep(LOOK_INTERVAL)
    raise TimeoutError("no job was completed, and no fault has been injected yet")


def await_first_tries(scene: Scene) -> None:
    """Return when stale writes are tried: a run without them shows nothing of the fence."""
    zombie = Follower(scene.settings.place, ZOMBIE)
    tried, deadline = 0, scene.clock.monotonic() + WARM_UP
    while scene.clock.monotonic() < deadline:
        tried += sum(line.count for line in zombie.news() if isinstance(line, Tried))
        if tried >= FIRST_TRIES:
            return
        scene.clock.sleep(LOOK_INTERVAL)
    raise TimeoutError(f"{tried} stale writes were tried, and no fault has been injected yet")


def await_last_jobs(store: Store, scene: Scene) -> float:
    """Wait until no job is live; return how long that took."""
    began = scene.clock.monotonic()
    waited = 0.0
    while waited < DRAIN_PATIENCE:
        with suppress(StoreError):
            counted = dump.counts(store)
            if not any(counted.get(state.value) for state in LIVE):
                return waited
        scene.clock.sleep(LOOK_INTERVAL)
        waited = scene.clock.monotonic() - began
    return waited


def conduct(settings: Settings) -> Closing:
    """Do all of it."""
    ledger = Ledger(settings.place, "nemesis")
    with ExitStack() as stack:
        stage = stack.enter_context(closing(make_stage(settings)))
        gate = make_gate(settings, ledger)
        if gate is not None:
            stack.callback(gate.close)
        crew = stack.enter_context(closing(Crew(settings, stage.url, ledger, gate)))
        rng = Random(f"{settings.seed} nemesis")
        scene = Scene(settings, stage, crew, ledger.clock, rng, gate)
        nemesis = Nemesis(scene, ledger)
        crew.fill()
        is_over = threading.Event()
        stack.callback(is_over.set)
        threading.Thread(target=tend, args=(crew, TEND_INTERVAL, is_over), daemon=True).start()
        with closing(stage.open()) as store:
            await_first_jobs(store, scene)
        await_first_tries(scene)
        nemesis.inject()
        stage.mend()
        if gate is not None:
            gate.mend()
        crew.dismiss(ZOMBIE)
        ledger.note(Calm(ledger.now()))
        crew.add(Member(WORKER, "sweeper", (BAIT_QUEUE, "8")))
        crew.dismiss(CALLER)
        with closing(stage.open()) as store:
            drained_after = await_last_jobs(store, scene)
            crew.dismiss(WORKER)
            crew.dismiss(API)
            dump.write(store, settings.place)
            counted = dump.counts(store)
        return Closing(
            injected=dict(nemesis.injected),
            skipped={k: v for k, v in nemesis.failed.items() if not nemesis.injected[k]},
            counts=counted,
            integrity=stage.integrity(),
            source=stage.source,
            drained_after=drained_after,
        )


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(*_: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # once is enough: what follows is to be finished
    raise Interrupted


def main() -> None:
    settings = Settings.load(sys.argv[1])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        closing_words = conduct(settings)
    except Interrupted:
        sys.exit(1)
    (settings.place / CLOSING).write_bytes(msgspec.json.encode(closing_words))


if __name__ == "__main__":
    main()

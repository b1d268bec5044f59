"""All of it together: a store, a network, workers, callers, an operator, and a nemesis.

First everything goes wrong for a while; then nothing does, and every job has to end; then the
workers are asked to stop, and have to.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from fencepost import App
from fencepost.core.bounds import CONCURRENCY_DEFAULT, GRACE_DEFAULT
from fencepost.core.job.timeouts import Retention
from fencepost.store.interface.settings import Scope
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from lab.simulation.callers import Caller, Known, Operator
from lab.simulation.clock import SimulatedClock
from lab.simulation.handlers import LEASE_TTL, QUEUES, WEIGHTS, declare
from lab.simulation.history import Healed, History
from lab.simulation.ledger import Ledger
from lab.simulation.loop import SimulatedLoop
from lab.simulation.nemesis import Nemesis
from lab.simulation.network import LATE_MAX, LATENCY, Link, Network, RemoteStore
from lab.simulation.process import Process
from lab.simulation.scenes import Scene, cast, options_of
from lab.simulation.scheduler import Scheduler
from lab.simulation.server import Server
from lab.simulation.worker import SimulatedWorker

RETENTION = Retention(completed=120, cancelled=120, failed=300, dead_letter=300)
GRACE = 3.0
LOOK_INTERVAL = 1.0

MakeStore = Callable[[SimulatedClock], MemoryStore]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How large a world is, and how bad."""

    seconds: float = 300.0
    """Of faults."""
    settling: float = 300.0
    """Seconds in which every job has to have ended afterwards."""
    workers: int = 3
    callers: int = 2
    concurrency: int = 6
    pause: float = 4.0
    """Seconds between two faults, in the mean."""
    scene: Scene = Scene.PLAIN
    latency: float = LATENCY
    repeats: float = 0.03
    """How likely a write is delivered a second time, late."""

    @property
    def slots(self) -> int:
        """How many jobs a worker runs at once."""
        return CONCURRENCY_DEFAULT if self.scene is Scene.DEFAULTS else self.concurrency


class Resident:
    """A place for a process, booted again and again under new names."""

    def __init__(self, role: str, boot: Callable[[Resident], None]) -> None:
        self.role = role
        self.boots = 0
        self.process: Process
        self.store: RemoteStore
        self._boot = boot

    def boot(self) -> None:
        self.boots += 1
        self._boot(self)


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, plan: Plan, make_store: MakeStore | None = None) -> None:
        self.seed = seed
        self.plan = plan
        self.history = History()
        self.scheduler = Scheduler(seed)
        self.outside = SimulatedLoop(self.scheduler)
        """What belongs to no process: packets on their way, and fate."""
        self.repeats = plan.repeats
        self.known = Known()
        store_clock = SimulatedClock(self.scheduler, f"store/{seed}")
        make = make_store or (lambda clock: MemoryStore(clock=clock))
        self.server = Server(store_clock, self.history, make)
        rng = Random(f"network/{seed}")
        self.network = Network(self.server, self.outside, rng, self.history)
        self._rng = Random(f"world/{seed}")
        ledger = Ledger(self.history)
        self._cast = cast(plan.scene, declare(ledger), WEIGHTS, ledger)
        self._processes: list[Process] = []
        self._is_healed = False
        self.workers = [Resident(f"worker-{i}", self._boot_worker) for i in range(plan.workers)]
        self.callers = [Resident(f"caller-{i}", self._boot_caller) for i in range(plan.callers)]
        self._operator = Resident("operator", self._boot_operator)
        self.residents = [*self.workers, *self.callers, self._operator]
        for resident in self.residents:
            resident.boot()
        self._nemesis = Nemesis(self, Random(f"nemesis/{seed}"), pause=plan.pause)
        self.outside.call_later(plan.seconds, self._heal)

    def run(self) -> None:
        """Live it through. The collector is kept out: what it finds when depends on the machine."""
        gc.collect()
        gc.disable()
        try:
            self.scheduler.run()
        finally:
            self.history.seal()
            for process in self._processes:
                process.dispose()
            self.outside.dispose()
            gc.enable()

    # Booting.

    def boot_later(self, resident: Resident, seconds: float) -> None:
        """Have another process take the place of one that is gone."""

        def boot() -> None:
            process = resident.process
            if not self._is_healed and (not process.is_alive or process.has_ended):
                resident.boot()

        self.outside.call_later(seconds, boot)

    def _process(self, resident: Resident) -> Process:
        name = f"{resident.role}.{resident.boots}"
        rng = self._rng
        clock = SimulatedClock(
            self.scheduler,
            f"{name}/{self.seed}",
            skew=rng.choice([0.0, rng.uniform(-600.0, 600.0)]),
            drift=rng.uniform(-1e-4, 1e-4),
        )
        process = Process(name, self.outside, clock, self.history)
        self._processes.append(process)
        resident.process = process
        link = Link(self.repeats, self.plan.latency)
        resident.store = self.network.connect(name, clock, link)
        process.on_death.append(resident.store.hang_up)
        return process

    def _app(self, resident: Resident) -> App:
        app = App("memory://", store=resident.store.as_store(), retention=RETENTION)
        app.session.tasks.update(self._cast.tasks)
        app.session.crons.update(self._cast.crons)
        return app

    def _boot_worker(self, resident: Resident) -> None:
        process = self._process(resident)
        app = self._app(resident)
        worker = SimulatedWorker(
            app.store,
            app.session.tasks,
            crons=app.session.crons,
            counters=app.session.counters,
            retention=RETENTION,
            id=process.name,
            **options_of(
                self.plan.scene,
                concurrency=self.plan.concurrency,
                lease_ttl=LEASE_TTL,
                grace=GRACE,
            ),
        )
        process.start(worker.aio.run())

    def _boot_caller(self, resident: Resident) -> None:
        process = self._process(resident)
        caller = Caller(self._app(resident), process, self.history, self.known, self._cast)
        process.start(caller.run())

    def _boot_operator(self, resident: Resident) -> None:
        process = self._process(resident)
        operator = Operator(self._app(resident), process, self.known)
        process.start(operator.run())

    # Ending.

    def _heal(self) -> None:
        """Let nothing go wrong any more, and look until every job has ended."""
        self._nemesis.rest()
        self._is_healed = True
        self.repeats = 0.0
        for resident in self.residents:
            resident.process.fuse = None
            resident.process.resume()
            resident.store.link.heal()
        for resident in (*self.callers, self._operator):
            resident.process.kill()
        for resident in self.workers:
            if not resident.process.is_alive or resident.process.has_ended:
                resident.boot()
        self.history.add(Healed(self.outside.time()))
        self._open_everything()
        for name in self._cast.crons:  # else there would never be nothing to do
            self.server.execute(self.server.store.crons.pause(name), "world")
        deadline = self.outside.time() + self.plan.settling
        # What went astray may arrive until then.
        self.outside.call_later(LATE_MAX + LOOK_INTERVAL, self._look, deadline)

    def _open_everything(self) -> None:
        """Undo what operators have left behind."""
        store = self.server.store
        undoings: list[Operation[Any]] = [store.settings.limit(Scope.APP, "", None)]
        for queue in QUEUES:
            undoings += [
                store.settings.resume(Scope.QUEUE, queue),
                store.settings.limit(Scope.QUEUE, queue, None),
            ]
        for operation in undoings:
            self.server.execute(operation, "world")

    def _look(self, deadline: float) -> None:
        # Those that were asked to stop while faults went on are replaced here.
        for resident in self.workers:
            if not resident.process.is_alive or resident.process.has_ended:
                resident.boot()
        self._open_everything()
        if self.server.live_count() and self.outside.time() < deadline:
            self.outside.call_later(LOOK_INTERVAL, self._look, deadline)
            return
        for resident in self.workers:
            resident.process.terminate()
        grace = GRACE_DEFAULT if self.plan.scene is Scene.DEFAULTS else GRACE
        self.outside.call_later(4 * grace + 10.0, self._finish)

    def _finish(self) -> None:
        self.scheduler.is_over = True

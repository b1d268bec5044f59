"""Makes things go wrong, one thing after the other, as the seed says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from lab.simulation.handlers import LEASE_TTL
from lab.simulation.history import Fault

if TYPE_CHECKING:
    from lab.simulation.world import Resident, World

FUSE_MAX = 60
"""A kill or a stop strikes after up to so many more callbacks of its process: at any await."""


class Nemesis:
    """Injects faults now and then until it is stopped."""

    def __init__(self, world: World, rng: Random, *, pause: float) -> None:
        self._world = world
        self._rng = rng
        self._pause = pause
        self._is_active = True
        self._deeds: list[tuple[int, Callable[[], None]]] = [
            (6, self._kill),
            (5, self._stop_briefly),
            (5, self._stop_past_the_lease),
            (3, self._terminate),
            (2, self._kill_caller),
            (3, self._lose_requests),
            (3, self._lose_replies),
            (2, self._black_hole),
            (2, self._slow_down),
            (1, self._outage),
            (1, self._silence_bells),
            (1, self._jump_clock),
        ]
        self._strike_later()

    def rest(self) -> None:
        self._is_active = False

    def _strike_later(self) -> None:
        self._world.outside.call_later(self._rng.expovariate(1 / self._pause), self._strike)

    def _strike(self) -> None:
        if self._is_active:
            weights = [weight for weight, _ in self._deeds]
            (deed,) = self._rng.choices([deed for _, deed in self._deeds], weights)
            deed()
            self._strike_later()

    # Processes.

    def _worker(self) -> Resident:
        return self._rng.choice(self._world.workers)

    def _fuse(self, resident: Resident, then: Callable[[], None]) -> None:
        resident.process.light_fuse(self._rng.randint(1, FUSE_MAX), then)

    def _kill(self) -> None:
        self._strike_down("kill", self._worker())

    def _kill_caller(self) -> None:
        self._strike_down("kill caller", self._rng.choice(self._world.callers))

    def _strike_down(self, kind: str, resident: Resident) -> None:
        def strike() -> None:
            if process.is_alive and not process.has_ended:
                self._note(kind, resident)
                process.kill()
                self._world.boot_later(resident, self._rng.uniform(0.1, 8.0))

        process = resident.process
        self._fuse(resident, strike)

    def _stop_briefly(self) -> None:
        self._stop("stop", self._rng.uniform(0.05, LEASE_TTL / 2))

    def _stop_past_the_lease(self) -> None:
        self._stop("stop past the lease", self._rng.uniform(1.0, 4.0) * LEASE_TTL)

    def _stop(self, kind: str, seconds: float) -> None:
        def strike() -> None:
            self._note(kind, resident)
            process.stop()
            self._world.outside.call_later(seconds, process.resume)

        resident = self._worker()
        process = resident.process
        self._fuse(resident, strike)

    def _terminate(self) -> None:
        """Ask a worker to stop; it is booted again once it has ended, or else killed."""
        resident = self._worker()
        process = resident.process

        def make_sure() -> None:
            process.kill()
            self._world.boot_later(resident, self._rng.uniform(0.1, 5.0))

        if process.is_alive and not process.has_ended:
            self._note("terminate", resident)
            process.terminate()
            self._world.outside.call_later(self._rng.uniform(0.5, 15.0), make_sure)

    def _jump_clock(self) -> None:
        resident = self._worker()
        self._note("clock jump", resident)
        resident.process.clock.skew += self._rng.uniform(-3600.0, 3600.0)

    # Ways to the store.

    def _lose_requests(self) -> None:
        self._spoil("lossy requests", 8.0, request_loss=self._rng.uniform(0.1, 0.9))

    def _lose_replies(self) -> None:
        self._spoil("lossy replies", 8.0, reply_loss=self._rng.uniform(0.1, 0.9))

    def _black_hole(self) -> None:
        self._spoil("black hole", 3 * LEASE_TTL, is_black=True)

    def _slow_down(self) -> None:
        self._spoil("slow", 10.0, latency=self._rng.uniform(0.1, 2.5))

    def _silence_bells(self) -> None:
        self._spoil("lost notifications", 20.0, notification_loss=1.0)

    def _spoil(self, kind: str, longest: float, **modes: float) -> None:
        resident = self._rng.choice(self._world.residents)
        self._note(kind, resident)
        self._spoil_way(resident, modes, self._rng.uniform(0.2, longest))

    def _outage(self) -> None:
        """Everybody finds the store closed."""
        self._world.history.add(Fault(self._world.outside.time(), "outage"))
        seconds = self._rng.uniform(0.2, 8.0)
        for resident in self._world.residents:
            self._spoil_way(resident, {"is_refused": True}, seconds)

    def _spoil_way(self, resident: Resident, modes: dict[str, float], seconds: float) -> None:
        link, name = resident.store.link, resident.process.name
        self._world.network.spoil(link, name, modes, seconds)

    def _note(self, kind: str, resident: Resident) -> None:
        fault = Fault(self._world.outside.time(), kind, resident.process.name)
        self._world.history.add(fault)

"""A run: every peer once a round, in turns, so that noise that lasts hits all of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.bench import Progress
from bench.machine import cores
from bench.peers import environments, results
from bench.peers.catalog import Engine, Peer
from bench.peers.environments import Unavailable
from bench.peers.grounds import Grounds
from bench.peers.measurements import Measurements
from bench.peers.processes import Programs
from bench.peers.results import Name, Reading, Results
from fencepost.clock import Clock

AT_ONCE: tuple[Name, ...] = ("killed",)
"""Here nearly all time is waiting: all peers do it at the same time, and once."""


class Run:
    """Measures what the results lack, and saves each reading as soon as there is one."""

    def __init__(
        self, found: Results, path: Path, *, folder: Path, clock: Clock, progress: Progress
    ) -> None:
        self._found = found
        self._path = path
        self._programs = Programs(folder, clock)
        self._clock = clock
        self._progress = progress

    def install(self, peers: Sequence[Peer]) -> list[Peer]:
        """Return the peers that can be run here; note why others can not."""
        able = []
        for peer in peers:
            self._progress.step(f"installing {peer.title}")
            try:
                self._found.versions[peer.name] = environments.version(peer)
            except Unavailable as error:
                self._found.unavailable[peer.name] = str(error)
            else:
                self._found.unavailable.pop(peer.name, None)
                able.append(peer)
        self._save()
        return able

    def measure(self, peers: Sequence[Peer], figures: Sequence[Name], rounds: int) -> None:
        """Measure each figure in turns, so many rounds of it."""
        with Grounds(self._programs) as grounds:
            measurements = Measurements(self._programs, grounds, self._found.sizes)
            for figure in figures:
                able = [peer for peer in peers if _applies(figure, peer)]
                if figure in AT_ONCE:
                    self._at_once(measurements, grounds, figure, able)
                else:
                    self._in_turns(measurements, figure, able, rounds)
                self._describe(grounds)

    def _in_turns(
        self, measurements: Measurements, figure: Name, peers: Sequence[Peer], rounds: int
    ) -> None:
        for number in range(rounds):
            for peer in peers:
                if len(self._found.of(figure, peer.name)) > number:
                    continue
                self._progress.step(f"{figure}, round {number + 1} of {rounds}: {peer.name}")
                self._note_load()
                self._found.add(figure, peer.name, self._reading(measurements, figure, peer))
                self._save()

    def _at_once(
        self, measurements: Measurements, grounds: Grounds, figure: Name, peers: Sequence[Peer]
    ) -> None:
        lacking = [peer for peer in peers if not self._found.of(figure, peer.name)]
        if not lacking:
            return
        self._progress.step(f"{figure}: {', '.join(peer.name for peer in lacking)}")
        self._note_load()
        for peer in lacking:  # one after the other, what each needs only once
            with grounds.of(peer).empty(peer):
                pass
        with ThreadPoolExecutor(len(lacking)) as pool:
            readings = pool.map(lambda peer: self._reading(measurements, figure, peer), lacking)
            for peer, reading in zip(lacking, readings, strict=True):
                self._found.add(figure, peer.name, reading)
        self._save()

    def _reading(self, measurements: Measurements, figure: Name, peer: Peer) -> Reading:
        try:
            return measurements.take(figure, peer)
        except Exception as error:  # noqa: BLE001 - the loop's edge: shown in the report
            return Reading(error=f"{type(error).__name__}: {error}")

    def _note_load(self) -> None:
        self._found.machine.loads.append(round(os.getloadavg()[0], 1))

    def _describe(self, grounds: Grounds) -> None:
        machine = self._found.machine
        machine.cores = cores()
        machine.system = f"{platform.system()} {platform.machine()}"
        machine.python = platform.python_version()
        machine.servers = sorted({*machine.servers, *grounds.describe()})
        machine.date = self._clock.now().date().isoformat()
        self._save()

    def _save(self) -> None:
        results.save(self._path, self._found)


def _applies(figure: Name, peer: Peer) -> bool:
    if figure == "bulk":
        return peer.has_bulk
    return figure != "snapshot" or peer.engine is Engine.POSTGRESQL

"""What happens to processes, whatever the store."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.chaos.crew import CALLER, WORKER, Member
from lab.chaos.entries import Started
from lab.chaos.faults.fault import Fault, NotNow, Scene
from lab.chaos.ledger import Follower
from lab.chaos.previous import NoVersionError, unpack
from lab.chaos.recovery import CALM

STORM_SIZE = (12, 24)
STORM_SECONDS = (0.2, 1.2)
STORM_TIMEOUT = 60.0
RECOVERY_SECONDS = (0.0, 0.012)
RECOVERER_TIMEOUT = 60.0
START_TIMEOUT = 60.0
WATCHED_SHARE = 0.4
"""How many of the kills are followed by a calm in which the recovery can be measured."""


def choose(scene: Scene, role: str) -> Member:
    """Return somebody of this role who runs, or raise NotNow."""
    member = scene.crew.choose(role, scene.rng)
    if member is None:
        raise NotNow(f"no {role} is running")
    return member


def kill_worker(scene: Scene) -> None:
    """Kill a worker, whatever it has in its hands; at times, leave the others alone then."""
    scene.crew.kill(choose(scene, WORKER))
    if scene.rng.random() < WATCHED_SHARE:
        scene.clock.sleep(scene.settings.ttl + CALM)


def kill_caller(scene: Scene) -> None:
    """Kill a caller; its successor repeats what had no answer."""
    scene.crew.kill(choose(scene, CALLER))


def kill_together(scene: Scene) -> None:
    """Kill a worker, and another while the first one's leases run out."""
    scene.crew.kill(choose(scene, WORKER))
    scene.wait(0.0, scene.settings.ttl)
    scene.crew.kill(choose(scene, WORKER))


def stop_worker(scene: Scene) -> None:
    """Stop a worker until its leases have run out, and let it go on."""
    member = choose(scene, WORKER)
    scene.crew.stop(member)
    try:
        scene.wait(scene.settings.ttl * 1.1, scene.settings.ttl * 1.8)
    finally:
        scene.crew.go_on(member)


def terminate_worker(scene: Scene) -> None:
    """Ask a worker to end, as a rolling deploy does; another takes its place."""
    scene.crew.terminate(choose(scene, WORKER))


def fork_storm(scene: Scene) -> None:
    """Start workers by the dozen, and kill them all a moment later."""
    count = scene.rng.randint(*STORM_SIZE)
    seconds = scene.rng.uniform(*STORM_SECONDS)
    name = f"storm-{scene.rng.randrange(10**9)}"
    arguments = (str(count), f"{seconds:.3f}")
    _run_to_its_end(scene, Member("storm", name, arguments, is_kept=False), STORM_TIMEOUT)


def crash_in_recovery(scene: Scene) -> None:
    """Kill a process in the moment in which it takes back leases that ran out."""
    delay = scene.rng.uniform(*RECOVERY_SECONDS)
    name = f"recoverer-{scene.rng.randrange(10**9)}"
    member = Member("recoverer", name, (f"{delay:.4f}",), is_kept=False)
    _run_to_its_end(scene, member, RECOVERER_TIMEOUT)


def _run_to_its_end(scene: Scene, member: Member, timeout: float) -> None:
    process = scene.crew.add(member).process
    assert process is not None
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise NotNow("it did not come to it in time") from None
    finally:
        scene.crew.remove(member)


def previous_version(scene: Scene) -> None:
    """Let a worker of an earlier version work beside the others, and kill it."""
    try:
        code = _earlier(scene.settings.place)
    except NoVersionError as error:
        raise NotNow(str(error)) from None
    name = f"earlier-{scene.rng.randrange(10**9)}"
    member = scene.crew.add(Member(WORKER, name, code=code, is_kept=False))
    try:
        _await_work(scene, name)
        scene.wait(1.0, 3.0)
    finally:
        scene.crew.remove(member)


def _await_work(scene: Scene, name: str) -> None:
    """Return when the worker of this name has started a job."""
    book = Follower(scene.settings.place, f"worker-{name}")
    deadline = scene.clock.monotonic() + START_TIMEOUT
    while scene.clock.monotonic() < deadline:
        if any(isinstance(entry, Started) for entry in book.news()):
            return
        scene.clock.sleep(0.05)
    raise NotNow("it did not start a job in time")


def _earlier(place: Path) -> Path:
    folder = place / "earlier"
    return folder / "src" if folder.exists() else unpack(folder)


PROCESS_FAULTS = (
    Fault("kill_worker", kill_worker, weight=4),
    Fault("kill_caller", kill_caller, weight=2),
    Fault("kill_together", kill_together),
    Fault("stop_worker", stop_worker, weight=3),
    Fault("terminate_worker", terminate_worker),
    Fault("fork_storm", fork_storm, weight=2),
    Fault("crash_in_recovery", crash_in_recovery),
    # No earlier version keeps jobs on Redis.
    Fault("previous_version", previous_version, ("sqlite", "postgres")),
)

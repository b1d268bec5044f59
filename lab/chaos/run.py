"""Run the nemesis in its process, see to it that nothing is left behind, and check what it left."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fencepost.clock import SystemClock
from lab.chaos.disk import unmount
from lab.chaos.dump import Closing
from lab.chaos.evidence import gather
from lab.chaos.faults import FLEETS, STORES, kinds_for
from lab.chaos.nemesis import CLOSING
from lab.chaos.report import Report, report
from lab.chaos.roster import end_survivors
from lab.chaos.settings import DURABILITIES, LAYOUTS, ROOT, Settings

END_TIMEOUT = 40.0


class ChaosFailedError(RuntimeError):
    """The run itself did not come to its end; the message says where its logs are."""


def run(
    *,
    store: str = "sqlite",
    layout: str = LAYOUTS[0],
    durability: str | None = None,
    seconds: float = 60.0,
    kinds: Sequence[str] | None = None,
    seed: int = 0,
    rate: float = 240.0,
    fleet: str = "python",
    mutant: str | None = None,
    workers: int = 3,
    pause: float = 1.0,
    source: str | None = None,
    keep: bool = False,
) -> Report:
    """Let chaos reign for about *seconds*, and return what came of it.

    Every kind has its turn once, also if that takes longer. The ledgers are kept if something is
    wrong, or with *keep*. Nothing that was started outlives this call, however it ends.
    """
    if layout != LAYOUTS[0]:
        if store != "redis" or layout not in LAYOUTS:
            raise ValueError(f"only redis has other layouts than one: {', '.join(LAYOUTS)}")
        durability = durability or DURABILITIES[0]
        if layout == "partitions" and durability != "replica":
            raise ValueError("what partitions tell each other outlasts a failover by replica only")
    elif durability is not None:
        raise ValueError("durability= is for Redis servers that take over from each other")
    known = kinds_for(store, fleet, layout)
    chosen = tuple(kinds) if kinds else known
    unknown = [kind for kind in chosen if kind not in known]
    if unknown or not chosen:
        raise ValueError(
            f"{store} with {fleet} knows no fault {unknown}; "
            f"there are {', '.join(STORES)} and {', '.join(FLEETS)}"
        )
    if fleet == "node" and shutil.which("node") is None:
        raise ValueError("workers in JavaScript need node on the path: install Node 20 or newer")
    place = Path(tempfile.mkdtemp(prefix="fencepost-chaos-"))
    place.chmod(0o711)  # a server that does not run as root has to pass
    settings = Settings(
        store=store,
        layout=layout,
        durability=durability,
        folder=str(place),
        kinds=chosen,
        seconds=seconds,
        seed=seed,
        rate=rate,
        fleet=fleet,
        mutant=mutant,
        workers=workers,
        pause=pause,
        source=source,
    )
    settings.save()
    clock = SystemClock()
    began = clock.monotonic()
    is_over = _conduct(settings)
    took = clock.monotonic() - began
    if not is_over:
        raise ChaosFailedError(f"the nemesis failed; see {place}/log and {place}/nemesis.log")
    closing = msgspec.json.decode((place / CLOSING).read_bytes(), type=Closing)
    evidence = gather(place, settings, closing)
    found = report(settings, closing, evidence, seconds=took, ledgers=str(place))
    if found.is_clean and not keep:
        shutil.rmtree(place, ignore_errors=True)
        return msgspec.structs.replace(found, ledgers=None)
    return found


def _conduct(settings: Settings) -> bool:
    """Run the nemesis to its end; tell whether it got there."""
    with (settings.place / "nemesis.log").open("ab") as log:
        nemesis = subprocess.Popen(
            [sys.executable, "-m", "lab.chaos.nemesis", str(settings.path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us, who then end it in order
        )
    try:
        return nemesis.wait() == 0
    finally:
        _end(nemesis)
        end_survivors(settings.place)
        unmount(settings.place / "disk")


def _end(nemesis: subprocess.Popen[bytes]) -> None:
    """Have the nemesis clean up, or do without."""
    if nemesis.poll() is None:
        nemesis.send_signal(signal.SIGTERM)
        try:
            nemesis.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            nemesis.kill()
            nemesis.wait()
    assert nemesis.stdin is not None
    nemesis.stdin.close()

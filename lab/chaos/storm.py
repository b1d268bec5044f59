"""A fork storm: ``SETTINGS URL NAME COUNT SECONDS``: many workers, all killed a moment later."""

from __future__ import annotations

import os
import signal
import sys

from fencepost.clock import SystemClock
from lab.chaos.entries import Killed
from lab.chaos.ledger import Ledger
from lab.chaos.process import begin
from lab.chaos.roster import enrol
from lab.chaos.settings import Settings
from lab.chaos.worker import work

CONCURRENCY = 2


def _fork(settings: Settings, url: str, name: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        enrol(settings.place, os.getpid())
        work(settings, url, name, concurrency=CONCURRENCY)
    finally:
        os._exit(0)


def main() -> None:
    # No thread before the forks; the pipe to the crew is watched by the parent alone.
    settings, url, name = Settings.load(sys.argv[1]), sys.argv[2], sys.argv[3]
    count, seconds = int(sys.argv[4]), float(sys.argv[5])
    ledger = Ledger(settings.place, name)
    children = [_fork(settings, url, f"{name}-{number}") for number in range(count)]
    begin()
    SystemClock().sleep(seconds)
    for pid in children:
        ledger.note(Killed(ledger.now(), pid, "storm"))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()

"""What every process of a run does first: end with its parent, and notice when it was held up."""

from __future__ import annotations

import os
import sys
import threading

from lab.chaos.entries import Stalled
from lab.chaos.ledger import Ledger
from lab.chaos.settings import Settings

NAP = 0.05


def begin() -> tuple[Settings, str, str]:
    """Return settings, URL and name, as the crew hands them over; end when the crew is gone."""
    settings, url, name = sys.argv[1:4]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return Settings.load(settings), url, name


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def watch_for_stalls(ledger: Ledger, longest: float) -> None:
    """Note each time that this process, which wants to run, could not for *longest* seconds.

    A machine that is too busy takes leases away too; the checker is to know that it was so.
    """

    def watch() -> None:
        clock = ledger.clock
        while True:
            before = clock.monotonic()
            clock.sleep(NAP)
            late = clock.monotonic() - before - NAP
            if late > longest:
                ledger.note(Stalled(ledger.now(), os.getpid(), late))

    threading.Thread(target=watch, daemon=True).start()

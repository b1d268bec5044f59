"""A worker of the product in a process of its own: ``SETTINGS URL NAME [QUEUES CONCURRENCY]``."""

from __future__ import annotations

import os
import sys

import fencepost
from lab.chaos.entries import Up
from lab.chaos.ledger import Ledger
from lab.chaos.process import begin, watch_for_stalls
from lab.chaos.settings import Settings
from lab.chaos.tasks import (
    LEFT_QUEUE,
    QUEUE,
    RATED,
    RATED_QUEUE,
    RIGHT_QUEUE,
    declare,
    make_app,
)

GRACE = 1.0


def work(settings: Settings, url: str, name: str, queue: str = QUEUE, concurrency: int = 0) -> None:
    """Run jobs until a signal to stop."""
    ledger = Ledger(settings.place, f"worker-{name}")
    watch_for_stalls(ledger, settings.ttl / 6)
    with make_app(url, settings) as app:
        declare(app, settings, ledger)
        queues = queue.split(",")
        if settings.is_spread and QUEUE in queues:
            queues += [LEFT_QUEUE, RIGHT_QUEUE]
        if RATED_QUEUE not in queues:
            # A worker that knows a task without its rate would take the rate away, and one that
            # knows a rate claims nothing ahead: neither is for those that do the rest.
            del app.session.tasks[RATED]
        worker = app.worker(queues, concurrency=concurrency or settings.concurrency, grace=GRACE)
        code = os.path.dirname(str(fencepost.__file__))
        ledger.note(Up(ledger.now(), worker.id, os.getpid(), code))
        worker.run()


def main() -> None:
    settings, url, name = begin()
    queue, concurrency = sys.argv[4:6] if len(sys.argv) > 4 else (QUEUE, "0")
    work(settings, url, name, queue, int(concurrency))


if __name__ == "__main__":
    main()

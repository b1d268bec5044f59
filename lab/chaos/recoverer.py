"""Somebody who dies in the middle of a recovery: ``SETTINGS URL NAME DELAY``.

It claims jobs, lets their leases run out, begins to recover them the moment they have, and is gone
by SIGKILL *DELAY* seconds into it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from fencepost.core.bounds import RECOVER_BATCH
from fencepost.core.job.job import ClaimedJob
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.open import open_store
from lab.chaos.entries import Killed, Taken
from lab.chaos.ledger import Ledger
from lab.chaos.process import begin
from lab.chaos.tasks import BAIT_QUEUE, QUEUE, QUICK

BITE = 60
TTL = 1.0


def main() -> None:
    settings, url, name = begin()
    delay = float(sys.argv[4])
    ledger = Ledger(settings.place, name)
    store = open_store(url)
    clock = ledger.clock
    request = ClaimRequest(
        worker=name,
        limit=BITE,
        queues={QUEUE: 1, BAIT_QUEUE: 1},
        types=frozenset({QUICK}),
        lease_ttl=TTL,
    )
    jobs: list[ClaimedJob] = []
    while not jobs:
        clock.sleep(0.01)
        jobs = store.run(store.queue.claim(request)).jobs
    last = max(job.lease.expires_at.timestamp() for job in jobs)
    for job in jobs:
        lease = (job.id, job.lease.version, job.lease.token, name)
        ledger.note(Taken(ledger.now(), *lease, job.lease.expires_at.timestamp()))
    clock.sleep(max(last - ledger.now(), 0.0))

    def die() -> None:
        clock.sleep(delay)
        ledger.note(Killed(ledger.now(), os.getpid(), "recoverer"))
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=die, daemon=True).start()
    while True:
        store.run(store.upkeep.recover(RECOVER_BATCH))


if __name__ == "__main__":
    main()

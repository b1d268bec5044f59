"""The HTTP API in a process of its own: ``SETTINGS URL NAME PORT``."""

from __future__ import annotations

import logging
import os
import sys

from fencepost.http.server.server import Server, ServerOptions, listen
from lab.chaos.entries import Served
from lab.chaos.ledger import Ledger
from lab.chaos.process import begin, watch_for_stalls
from lab.chaos.tasks import make_app

GRACE = 5.0


def main() -> None:
    settings, url, name = begin()
    ledger = Ledger(settings.place, f"api-{name}")
    watch_for_stalls(ledger, settings.ttl / 6)
    logging.getLogger("fencepost").setLevel(logging.CRITICAL)  # each refusal would be a line
    if settings.mutant is not None:
        from lab.chaos.sabotage import MUTANTS

        MUTANTS[settings.mutant]()
    with make_app(url, settings) as app, listen("127.0.0.1", int(sys.argv[4])) as listening:
        server = Server(app, listening, ServerOptions(grace=GRACE, is_local=True))
        ledger.note(Served(ledger.now(), os.getpid()))
        server.run()


if __name__ == "__main__":
    main()

"""The HTTP API in a process of its own: ``SETTINGS URL NAME PORT``."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import uvicorn

from fencepost.http import asgi
from lab.chaos.entries import Served
from lab.chaos.ledger import Ledger
from lab.chaos.process import begin, watch_for_stalls
from lab.chaos.tasks import make_app

GRACE = 5


class Listener(uvicorn.Server):
    """Notes when it listens: from then on, whoever asks is answered."""

    def __init__(self, config: uvicorn.Config, ledger: Ledger) -> None:
        super().__init__(config)
        self._ledger = ledger

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ledger.note(Served(self._ledger.now(), os.getpid()))


def main() -> None:
    settings, url, name = begin()
    ledger = Ledger(settings.place, f"api-{name}")
    watch_for_stalls(ledger, settings.ttl / 6)
    logging.getLogger("fencepost").setLevel(logging.CRITICAL)  # each refusal would be a line
    if settings.mutant is not None:
        from lab.chaos.sabotage import MUTANTS

        MUTANTS[settings.mutant]()
    with make_app(url, settings) as app:
        config = uvicorn.Config(
            asgi(app, is_local=True),
            host="127.0.0.1",
            port=int(sys.argv[4]),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=GRACE,
        )
        Listener(config, ledger).run()


if __name__ == "__main__":
    main()

"""Chaos: real processes and real servers, hurt on purpose; ledgers, and a checker that reads them.

``run(store="sqlite", seconds=60)`` starts callers, workers, zombies that try stale writes, and a
nemesis in a process of its own, and returns a Report. ``python -m lab.chaos --help`` is the same
from a terminal. How the parts stand to each other:

    run ── nemesis ─┬─ stage: a SQLite file, or PostgreSQL, a standby and a bad network, or Redis:
                    │  one server, or with a layout several that take over from each other
                    ├─ crew: callers, workers, zombies, each a process that writes a ledger
                    ├─ with fleet="node", workers in JavaScript, and between them and the store
                    │  the HTTP API, a process that is hurt too, behind a bad network
                    └─ faults, one after another, by a seed
    ledgers + a dump of the store ── evidence ── checker ── Report
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.chaos.report import Report
    from lab.chaos.run import run

__all__ = ["Report", "run"]


def __getattr__(name: str) -> Any:
    # The programs of this package start by the hundred, and need none of it.
    if name == "run":
        from lab.chaos.run import run

        return run
    if name == "Report":
        from lab.chaos.report import Report

        return Report
    raise AttributeError(name)

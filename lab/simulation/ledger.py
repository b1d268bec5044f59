"""The world outside: two ledgers that handlers write to, one of which looks at the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import cast

from fencepost.worker import Context
from lab.simulation.history import Ended, History, Started, Wrote
from lab.simulation.loop import SimulatedLoop
from lab.simulation.process import Process


def here() -> Process:
    """Return the process in which the present code runs."""
    process = cast(SimulatedLoop, asyncio.get_running_loop()).process
    assert process is not None
    return process


def chance() -> Random:
    """Return the present process's randomness."""
    return here().clock.rng


class Ledger:
    """Notes what handlers do. The fenced book refuses a version older than one it has seen."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._newest: dict[str, int] = {}

    def write(self, ctx: Context) -> None:
        """Write one line into each book."""
        at = asyncio.get_running_loop().time()
        process = here().name
        version = ctx.lease.version
        is_accepted = version >= self._newest.get(ctx.job_id, 0)
        if is_accepted:
            self._newest[ctx.job_id] = version
        self._history.add(Wrote(at, process, ctx.job_id, version, True, is_accepted))
        self._history.add(Wrote(at, process, ctx.job_id, version, False, True))

    @contextmanager
    def attempt(self, ctx: Context, *, is_stubborn: bool = False) -> Iterator[None]:
        """Note that a handler runs, and how it ends; one that is killed never does."""
        loop = asyncio.get_running_loop()
        name, job_id, token = here().name, ctx.job_id, ctx.lease.token
        self._history.add(Started(loop.time(), name, job_id, token, ctx.lease.version, is_stubborn))
        how = "returned"
        try:
            yield
        except asyncio.CancelledError:
            how = "interrupted"
            raise
        except Exception:
            how = "raised"
            raise
        finally:
            self._history.add(Ended(loop.time(), name, job_id, token, how))

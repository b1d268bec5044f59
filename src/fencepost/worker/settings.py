"""What a worker was made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.core.hooks import Hooks
from fencepost.core.job.task import Task
from fencepost.core.job.timeouts import Retention
from fencepost.observe.counters import Counters
from fencepost.store.interface.store import Store

if TYPE_CHECKING:
    from fencepost.core.cron import Cron
    from fencepost.observe.tracing import Tracing


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The same for each of its runs."""

    worker: str
    is_named: bool
    """Whether the worker's id was given, so that another may have had it."""
    store: Store
    tasks: Mapping[str, Task]
    crons: Mapping[str, Cron]
    counters: Counters
    tracing: Tracing | None
    hooks: Hooks
    retention: Retention
    queues: dict[str, int] | None
    concurrency: int
    lease_ttl: float
    grace: float
    max_jobs: int | None
    max_rss: int | None
    version: str | None = None
    preload: tuple[str, ...] = ()
    """What child processes import first."""

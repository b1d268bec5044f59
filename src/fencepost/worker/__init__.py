"""The way through: claim, run, heartbeat, settle."""

from typing import TYPE_CHECKING, Any

from fencepost.worker.run.context import AsyncContext, BatchJob, Context

if TYPE_CHECKING:
    from fencepost.worker.backoff import Backoffs
    from fencepost.worker.worker import Worker

__all__ = ["AsyncContext", "Backoffs", "BatchJob", "Context", "Worker"]


def __getattr__(name: str) -> Any:
    # Callers that only submit never pay for importing what runs handlers.
    if name == "Backoffs":
        from fencepost.worker.backoff import Backoffs

        return Backoffs
    if name == "Worker":
        from fencepost.worker.worker import Worker

        return Worker
    raise AttributeError(name)

"""The one task of ``fencepost bench``, and the app that its worker process runs."""

from __future__ import annotations

from fencepost.actions.options import Options
from fencepost.app import App, TaskHandle
from fencepost.clock import SystemClock
from fencepost.core.bounds import DURATION_MAX
from fencepost.core.job.task import Isolation, Task
from fencepost.core.retention import Retention
from fencepost.core.values.names import RESERVED_TYPES
from fencepost.core.values.signature import Signature
from fencepost.worker import Context

QUEUE = TYPE = f"{RESERVED_TYPES}bench"
"""A type that no user's task can have, so that its jobs can be removed without a look."""


def bench_task(app: App) -> TaskHandle[[int], int]:
    """Give *app* the task that is measured; it returns when it was started, in microseconds."""
    clock = SystemClock()

    async def bench(number: int) -> int:  # noqa: ARG001 - read and checked, as real ones are
        return clock.now_us()

    task = Task(
        type=TYPE,
        function=bench,
        signature=Signature(bench, Context),
        isolation=Isolation.LOOP,
        queue=QUEUE,
    )
    app.session.tasks[TYPE] = task
    return TaskHandle(app.session, task, Options())


app = App(
    name="fencepost-bench",
    # A worker that is alone on a store does the leader's chores. It must prune nothing: how long
    # the user's own app keeps its jobs is not known here.
    retention=Retention(
        completed=DURATION_MAX,
        cancelled=DURATION_MAX,
        failed=DURATION_MAX,
        dead_letter=DURATION_MAX,
        events=DURATION_MAX,
        audit=DURATION_MAX,
    ),
)
bench_task(app)

"""``drain``: run what is due, here and now, and say what ran."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fencepost.clock import Clock
from fencepost.core.bounds import WORKER_LEASE_TTL_DEFAULT, WORKER_TIMEOUT_GRACE
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.task import Task
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.instants import seconds_to_us
from fencepost.errors import ConfigurationError, Snooze
from fencepost.store.interface.queue import ClaimRequest
from fencepost.testing.attempting import (
    Ran,
    Turns,
    arguments,
    conclude,
    context_of,
    drive,
    drive_async,
    raised,
)
from fencepost.testing.clock import FakeClock
from fencepost.worker import Context

if TYPE_CHECKING:
    from fencepost.app import App

LIMIT = 1_000
STEP_MIN = 1e-6
WORKER = "drain"

Advance = Duration | Literal["all"] | None


class Drain:
    """Runs an app's jobs in the caller's thread; ``aio`` is the same, awaited."""

    def __call__(
        self, app: App, *, advance: Advance = None, raises: bool = False, limit: int = LIMIT
    ) -> list[Ran]:
        """Run the jobs of *app* one after the other until nothing is claimable; return what ran.

        With *advance*, time moves on by so much, and stops wherever something falls due: a delayed
        job, a retry after its backoff, a lease that was left behind. ``"all"`` goes on until
        nothing is left that could fall due. With *raises*, the first exception of a handler is
        raised here, once its attempt is settled. More than *limit* attempts are an AssertionError.
        """
        return drive(_turns(app, advance, raises, limit))

    async def aio(
        self, app: App, *, advance: Advance = None, raises: bool = False, limit: int = LIMIT
    ) -> list[Ran]:
        """Do the same on the running event loop; a ``def`` handler runs in this thread as well."""
        return await drive_async(_turns(app, advance, raises, limit))


drain = Drain()


def _turns(app: App, advance: Advance, raises: bool, limit: int) -> Turns[list[Ran]]:
    store, tasks = app.store, app.session.tasks
    course = _Course(store.clock, advance)
    ran: list[Ran] = []
    while True:
        request = ClaimRequest(
            worker=WORKER,
            limit=1,
            types=frozenset(tasks),
            turn=len(ran),
            lease_ttl=app.timeouts.lease_ttl or WORKER_LEASE_TTL_DEFAULT,
            timeout_grace=WORKER_TIMEOUT_GRACE,
        )
        claim = store.run(store.queue.claim(request))
        for job in claim.jobs:
            if len(ran) >= limit:
                raise AssertionError(_endless(job, limit))
            context = context_of(store, job, tasks)
            ended = yield partial(_call, tasks[job.type], job, context)
            ran.append(conclude(store, job, context, ended, tasks))
            error = raised(ended)
            if raises and error is not None and not isinstance(error, Snooze):
                raise error
        if not claim.jobs and not course.move(claim.wait):
            return ran


def _call(task: Task, job: ClaimedJob, context: Context) -> Any:
    args, kwargs = arguments(task, job, context)
    return task.function(*args, **kwargs)


def _endless(job: ClaimedJob, limit: int) -> str:
    return (
        f"drain() ran {limit:,} attempts and jobs are still due, the next of type {job.type!r}: "
        f"do jobs submit each other without end? If not, allow more of them with limit="
    )


class _Course:
    """Moves the clock from one due time to the next, and no further than was asked."""

    def __init__(self, clock: Clock, advance: Advance) -> None:
        self._clock: FakeClock | None = None
        self._end_us: int | None = None
        if advance is None:
            return
        if not isinstance(clock, FakeClock):
            raise ConfigurationError(
                "drain(advance=…) moves a FakeClock, and this app runs on real time; put it on "
                "one with memory_store(app)"
            )
        self._clock = clock
        if advance != "all":
            seconds = parse_duration(advance, name="advance")
            self._end_us = clock.now_us() + seconds_to_us(seconds)

    def move(self, wait: float | None) -> bool:
        """Move on by *wait* if that is on the course, else to its end; tell which."""
        if self._clock is None:
            return False
        if self._end_us is None:
            left = wait
        else:
            left = max(self._end_us - self._clock.now_us(), 0) / 1_000_000
        if left is None:
            return False
        if wait is None or wait > left:
            self._clock.advance(left)
            return False
        self._clock.advance(max(wait, STEP_MIN))
        return True

"""Says in the log how each attempt ended: what failed, why, and what happens next.

A failure that will be retried is a warning; one that will not, an error with its traceback; the
rest is information. Every line names the job, so that it can be looked up.
"""

from __future__ import annotations

import logging
from typing import Any

from fencepost.core.job.job import ClaimedJob, Failure
from fencepost.core.job.lifecycle import Event, State
from fencepost.core.job.outcome import Decision
from fencepost.observe import names
from fencepost.observe.log import PACKAGE, jobs_logger, known, write
from fencepost.worker.run.context import CancelReason


class FailedInChild(Exception):
    """What a handler raised in its child process, which had its traceback."""


def report(
    job: ClaimedJob,
    decision: Decision,
    *,
    seconds: float,
    worker: str,
    error: BaseException | None = None,
) -> None:
    """Log how an attempt ended and what becomes of its job."""
    failure, event = decision.failure, decision.event
    level = _LEVELS.get(event, logging.INFO)
    if level < logging.ERROR:
        error = None
    elif error is None and failure is not None and failure.traceback is not None:
        error = _from_child(failure)
    about = {
        "state": decision.state,
        "retry_in": decision.delay if event in (Event.RETRY, Event.SNOOZE) else None,
        "error": None if failure is None else failure.exception or failure.code,
        "message": None if failure is None else failure.message,
    }
    _write(
        _EVENTS[event],
        level,
        job,
        _ending(job, decision, seconds),
        seconds=seconds,
        worker=worker,
        about=about,
        raised=without_ours(error),
    )


def report_stopped(
    job: ClaimedJob, reason: CancelReason | None, *, seconds: float, worker: str
) -> None:
    """Log that an attempt was stopped whose job has ended, or has another worker."""
    ending = "was cancelled"
    event, level = names.ATTEMPT_CANCELLED, logging.INFO
    if reason != "cancelled":
        ending = "lost its lease: another attempt may run, or has"
        event, level = names.ATTEMPT_INTERRUPTED, logging.WARNING
    ending += f"; stopped after {_shown(seconds)}"
    about = {"reason": reason}
    _write(event, level, job, ending, seconds=seconds, worker=worker, about=about)


def _write(
    event: str,
    level: int,
    job: ClaimedJob,
    ending: str,
    *,
    seconds: float,
    worker: str,
    about: dict[str, Any],
    raised: BaseException | None = None,
) -> None:
    fields = {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "seconds": round(seconds, 6),
        "worker": worker,
        **about,
        "correlation_id": job.correlation_id,
    }
    text = f"{job.type} {job.id} {ending} (queue {job.queue}, worker {worker})"
    write(event, known(fields), level=level, text=text, raised=raised, to=jobs_logger)


_EVENTS = {
    Event.SUCCEED: names.ATTEMPT_SUCCEEDED,
    Event.RETRY: names.ATTEMPT_RETRIED,
    Event.REJECT: names.ATTEMPT_FAILED,
    Event.EXHAUST: names.ATTEMPT_FAILED,
    Event.SNOOZE: names.ATTEMPT_SNOOZED,
    Event.RELEASE: names.ATTEMPT_RELEASED,
}
_LEVELS = {Event.RETRY: logging.WARNING, Event.REJECT: logging.ERROR, Event.EXHAUST: logging.ERROR}


def _ending(job: ClaimedJob, decision: Decision, seconds: float) -> str:
    turn = f"attempt {job.attempt} of {job.max_attempts}, {_shown(seconds)}"
    match decision.event:
        case Event.SUCCEED:
            return f"completed ({turn})"
        case Event.SNOOZE:
            return f"snoozed for {_shown(decision.delay)} ({turn})"
        case Event.RELEASE:
            return f"given back, uncounted ({turn})"
    what = f"failed ({turn}): {_reason(decision.failure)}"
    if decision.event is Event.RETRY:
        return f"{what}; next attempt in {_shown(decision.delay)}"
    look = f"look with: fencepost jobs show {job.id}"
    if decision.state is State.DEAD_LETTER:
        return f"{what}; a dead letter now, {look}"
    return f"{what}; permanent, it is not tried again, {look}"


def _reason(failure: Failure | None) -> str:
    if failure is None:
        return "no reason is known"
    if failure.exception is None:
        return failure.message
    name = failure.exception.removeprefix("builtins.").removeprefix("fencepost.errors.")
    return f"{name}: {failure.message}"


def _shown(seconds: float) -> str:
    """Return a duration as people say it: 1.2 ms, 3.4 s, 2 min 5 s."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def without_ours(error: BaseException | None) -> BaseException | None:
    """Return *error* with a traceback that begins in the handler, not in the worker."""
    while error is not None and error.__traceback__ is not None:
        trace = error.__traceback__
        if trace.tb_next is None or not trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
            break
        error = error.with_traceback(trace.tb_next)
    return error


def _from_child(failure: Failure) -> FailedInChild:
    """Return an exception for the log that shows the traceback of another process."""
    error = FailedInChild(_reason(failure))
    error.add_note(failure.traceback or "")
    return error

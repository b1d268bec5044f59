"""Names that users of other queues know, and what to write here instead.

None of them works. An error that shows the line to write saves a look into the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from fencepost.core.display import shown

_SUBMIT = "{task}.submit(…)"
_SUBMIT_LATER = "{task}.using(delay=60).submit(…)"
_PREPARE = "{name}.prepare(…)"

METHODS = {
    "delay": _SUBMIT,
    "apply_async": f"{_SUBMIT}, with options {_SUBMIT_LATER}",
    "s": _PREPARE,
    "si": _PREPARE,
    "signature": _PREPARE,
    "enqueue": _SUBMIT,
    "aenqueue": _SUBMIT,
    "send": _SUBMIT,
    "send_with_options": _SUBMIT_LATER,
    "schedule": _SUBMIT_LATER,
    "defer": _SUBMIT,
    "defer_async": _SUBMIT,
    "kiq": _SUBMIT,
}
"""Of tasks: of Celery, RQ and Django, Dramatiq, Huey, Procrastinate and Taskiq."""

OPTIONS = {
    "countdown": "delay={value}",
    "eta": "run_at={value}",
    "run_after": "run_at={value}",
    "schedule_in": "delay={value}",
    "schedule_at": "run_at={value}",
    "expires": "lifetime={value}",
    "max_retries": "retry=Retry(max_retries={value})",
    "max_attempts": "retry=Retry(max_attempts={value})",
    "queue_name": "queue={value}",
    "queueing_lock": "key={value}",
    "idempotency_key": "key={value}",
    "lock": "concurrency_key={value}",
    "time_limit": "timeout={value}",
    "job_timeout": "timeout={value}",
    "task_id": "key={value}, since ids are assigned by the system",
    "job_id": "key={value}, since ids are assigned by the system",
}
"""Of submissions."""


def method_instead(method: str, name: str, *, is_async: bool) -> str | None:
    """Return what to write instead of *method* of the task *name*, None if that is not known."""
    known = METHODS.get(method)
    if known is None:
        return None
    task = f"await {name}.aio" if is_async else name
    return f"a task has no {method}(); write {known.format(task=task, name=name)}"


def option_instead(given: Mapping[str, Any], name: str, task: str = "task") -> str:
    """Return the end of a message about an unknown option: what to write, if that is known."""
    if name == "id":
        return "; ids are assigned by the system"
    known = OPTIONS.get(name)
    if known is None:
        return ""
    return f"; write {task}.using({known.format(value=_written(given[name]))}).submit(…)"


def _written(value: object) -> str:
    return shown(value) if isinstance(value, (int, float, str, timedelta)) else "…"

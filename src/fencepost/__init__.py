"""Fencepost: the job queue in which a job cannot be lost and a stale worker cannot write.

    from fencepost import App

    app = App()

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    add.submit(1, 2)

``fencepost worker`` (or ``app.worker().run()``) runs what was submitted.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.app import App, JobHandle, TaskHandle
    from fencepost.core.job import Attempt, Category, DeadLetter, Failure, Job, NewJob
    from fencepost.core.lifecycle import State
    from fencepost.core.priority import Priority
    from fencepost.core.retention import Retention
    from fencepost.core.retry import Retry
    from fencepost.core.timeouts import Timeouts
    from fencepost.core.webhook_settings import Webhooks
    from fencepost.errors import (
        ConfigurationError,
        DuplicateJobError,
        FencepostError,
        InvalidCallbackError,
        InvalidJobError,
        InvalidPayloadError,
        JobCancelledError,
        JobFailedError,
        JobNotFoundError,
        PayloadTooLargeError,
        PermanentError,
        Snooze,
        StaleLeaseError,
        StateConflictError,
        StoreUnavailableError,
        SubmissionTimeoutError,
        TemporaryError,
        UnknownOutcomeError,
        WaitTimeoutError,
    )
    from fencepost.worker import Context

__version__ = "0.1.0"

__all__ = [
    "App",
    "Attempt",
    "Category",
    "ConfigurationError",
    "Context",
    "DeadLetter",
    "DuplicateJobError",
    "Failure",
    "FencepostError",
    "InvalidCallbackError",
    "InvalidJobError",
    "InvalidPayloadError",
    "Job",
    "JobCancelledError",
    "JobFailedError",
    "JobHandle",
    "JobNotFoundError",
    "NewJob",
    "PayloadTooLargeError",
    "PermanentError",
    "Priority",
    "Retention",
    "Retry",
    "Snooze",
    "StaleLeaseError",
    "State",
    "StateConflictError",
    "StoreUnavailableError",
    "SubmissionTimeoutError",
    "TaskHandle",
    "TemporaryError",
    "Timeouts",
    "UnknownOutcomeError",
    "WaitTimeoutError",
    "Webhooks",
]

# Loaded when first asked for: `fencepost --help` needs none of them.
_HOMES = {
    "fencepost.app": "App JobHandle TaskHandle",
    "fencepost.core.job": "Attempt Category DeadLetter Failure Job NewJob",
    "fencepost.core.lifecycle": "State",
    "fencepost.core.priority": "Priority",
    "fencepost.core.retention": "Retention",
    "fencepost.core.retry": "Retry",
    "fencepost.core.timeouts": "Timeouts",
    "fencepost.core.webhook_settings": "Webhooks",
    "fencepost.errors": (
        "ConfigurationError DuplicateJobError FencepostError InvalidCallbackError "
        "InvalidJobError InvalidPayloadError JobCancelledError JobFailedError JobNotFoundError "
        "PayloadTooLargeError PermanentError Snooze StaleLeaseError StateConflictError "
        "StoreUnavailableError SubmissionTimeoutError TemporaryError UnknownOutcomeError "
        "WaitTimeoutError"
    ),
    "fencepost.worker": "Context",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

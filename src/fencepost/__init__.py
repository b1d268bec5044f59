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
    from fencepost.app import App, EventHandle, FlowHandle, JobHandle, TaskHandle
    from fencepost.client import Client
    from fencepost.core.crypto.keyring import EncryptionKey
    from fencepost.core.events import SentEvent
    from fencepost.core.flows.graph import Graph, chain, fan_in, fan_out
    from fencepost.core.job.job import Attempt, Category, DeadLetter, Failure, Job, NewJob
    from fencepost.core.job.lifecycle import State
    from fencepost.core.job.priority import Priority
    from fencepost.core.job.retry import Retry
    from fencepost.core.job.timeouts import Timeouts
    from fencepost.core.retention import Retention
    from fencepost.core.webhooks.settings import Webhooks
    from fencepost.errors import (
        ConfigurationError,
        DependencyError,
        DuplicateJobError,
        EncryptionError,
        FencepostError,
        HandlerStopped,
        InvalidCallbackError,
        InvalidEventError,
        InvalidJobError,
        InvalidPayloadError,
        JobCancelledError,
        JobFailedError,
        JobNotFoundError,
        MissingKeyError,
        PayloadTooLargeError,
        PermanentError,
        PlainContentError,
        Snooze,
        StaleLeaseError,
        StateConflictError,
        StoreUnavailableError,
        SubmissionTimeoutError,
        TamperedError,
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
    "Client",
    "ConfigurationError",
    "Context",
    "DeadLetter",
    "DependencyError",
    "DuplicateJobError",
    "EncryptionError",
    "EncryptionKey",
    "EventHandle",
    "Failure",
    "FencepostError",
    "FlowHandle",
    "Graph",
    "HandlerStopped",
    "InvalidCallbackError",
    "InvalidEventError",
    "InvalidJobError",
    "InvalidPayloadError",
    "Job",
    "JobCancelledError",
    "JobFailedError",
    "JobHandle",
    "JobNotFoundError",
    "MissingKeyError",
    "NewJob",
    "PayloadTooLargeError",
    "PermanentError",
    "PlainContentError",
    "Priority",
    "Retention",
    "Retry",
    "SentEvent",
    "Snooze",
    "StaleLeaseError",
    "State",
    "StateConflictError",
    "StoreUnavailableError",
    "SubmissionTimeoutError",
    "TamperedError",
    "TaskHandle",
    "TemporaryError",
    "Timeouts",
    "UnknownOutcomeError",
    "WaitTimeoutError",
    "Webhooks",
    "chain",
    "fan_in",
    "fan_out",
]

# Loaded when first asked for: `fencepost --help` needs none of them.
_HOMES = {
    "fencepost.app": "App EventHandle FlowHandle JobHandle TaskHandle",
    "fencepost.client": "Client",
    "fencepost.core.events": "SentEvent",
    "fencepost.core.flows.graph": "Graph chain fan_in fan_out",
    "fencepost.core.job.job": "Attempt Category DeadLetter Failure Job NewJob",
    "fencepost.core.crypto.keyring": "EncryptionKey",
    "fencepost.core.job.lifecycle": "State",
    "fencepost.core.job.priority": "Priority",
    "fencepost.core.retention": "Retention",
    "fencepost.core.job.retry": "Retry",
    "fencepost.core.job.timeouts": "Timeouts",
    "fencepost.core.webhooks.settings": "Webhooks",
    "fencepost.errors": (
        "ConfigurationError DependencyError DuplicateJobError EncryptionError FencepostError "
        "HandlerStopped InvalidCallbackError InvalidEventError InvalidJobError InvalidPayloadError "
        "JobCancelledError JobFailedError JobNotFoundError MissingKeyError "
        "PayloadTooLargeError PermanentError PlainContentError Snooze StaleLeaseError "
        "StateConflictError StoreUnavailableError SubmissionTimeoutError TamperedError "
        "TemporaryError UnknownOutcomeError WaitTimeoutError"
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

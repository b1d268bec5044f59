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
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.app import App as App
    from fencepost.app import EventHandle as EventHandle
    from fencepost.app import FlowHandle as FlowHandle
    from fencepost.app import JobHandle as JobHandle
    from fencepost.app import TaskHandle as TaskHandle
    from fencepost.client import Client as Client
    from fencepost.core.encryption import EncryptionKey as EncryptionKey
    from fencepost.core.events import SentEvent as SentEvent
    from fencepost.core.flows.graph import Graph as Graph
    from fencepost.core.flows.graph import chain as chain
    from fencepost.core.flows.graph import fan_in as fan_in
    from fencepost.core.flows.graph import fan_out as fan_out
    from fencepost.core.hooks import FailedAttempt as FailedAttempt
    from fencepost.core.job.job import Attempt as Attempt
    from fencepost.core.job.job import Category as Category
    from fencepost.core.job.job import DeadLetter as DeadLetter
    from fencepost.core.job.job import Failure as Failure
    from fencepost.core.job.job import Job as Job
    from fencepost.core.job.job import NewJob as NewJob
    from fencepost.core.job.lifecycle import State as State
    from fencepost.core.job.policy import Priority as Priority
    from fencepost.core.job.policy import Retry as Retry
    from fencepost.core.job.timeouts import Retention as Retention
    from fencepost.core.job.timeouts import Timeouts as Timeouts
    from fencepost.core.values.payload import UnreadableValue as UnreadableValue
    from fencepost.core.webhooks.callback import Webhooks as Webhooks
    from fencepost.errors import ConfigurationError as ConfigurationError
    from fencepost.errors import DependencyError as DependencyError
    from fencepost.errors import DuplicateJobError as DuplicateJobError
    from fencepost.errors import EncryptionError as EncryptionError
    from fencepost.errors import FencepostError as FencepostError
    from fencepost.errors import HandlerStopped as HandlerStopped
    from fencepost.errors import InvalidCallbackError as InvalidCallbackError
    from fencepost.errors import InvalidEventError as InvalidEventError
    from fencepost.errors import InvalidJobError as InvalidJobError
    from fencepost.errors import InvalidPayloadError as InvalidPayloadError
    from fencepost.errors import JobCancelledError as JobCancelledError
    from fencepost.errors import JobFailedError as JobFailedError
    from fencepost.errors import JobNotFoundError as JobNotFoundError
    from fencepost.errors import MissingKeyError as MissingKeyError
    from fencepost.errors import PayloadTooLargeError as PayloadTooLargeError
    from fencepost.errors import PermanentError as PermanentError
    from fencepost.errors import PlainContentError as PlainContentError
    from fencepost.errors import Snooze as Snooze
    from fencepost.errors import StaleLeaseError as StaleLeaseError
    from fencepost.errors import StateConflictError as StateConflictError
    from fencepost.errors import StoreUnavailableError as StoreUnavailableError
    from fencepost.errors import SubmissionTimeoutError as SubmissionTimeoutError
    from fencepost.errors import TamperedError as TamperedError
    from fencepost.errors import TemporaryError as TemporaryError
    from fencepost.errors import UnknownOutcomeError as UnknownOutcomeError
    from fencepost.errors import WaitTimeoutError as WaitTimeoutError
    from fencepost.observe.log import JobLogFilter as JobLogFilter
    from fencepost.worker import BatchJob as BatchJob
    from fencepost.worker import Context as Context

__version__ = "0.1.0"


def _lazily(package: str, homes: dict[str, str]) -> Any:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for names that load on first use."""
    namespace = vars(sys.modules[package])
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(importlib.import_module(home_of[name]), name)
        return value

    return load, lambda: sorted({*namespace, *home_of}), list(home_of)


# Loaded when first asked for: `fencepost --help` needs none of them.
_HOMES = {
    "fencepost.app": "App EventHandle FlowHandle JobHandle TaskHandle",
    "fencepost.client": "Client",
    "fencepost.core.events": "SentEvent",
    "fencepost.core.flows.graph": "Graph chain fan_in fan_out",
    "fencepost.core.hooks": "FailedAttempt",
    "fencepost.core.job.job": "Attempt Category DeadLetter Failure Job NewJob",
    "fencepost.core.encryption": "EncryptionKey",
    "fencepost.core.job.lifecycle": "State",
    "fencepost.core.job.policy": "Priority Retry",
    "fencepost.core.job.timeouts": "Retention Timeouts",
    "fencepost.core.values.payload": "UnreadableValue",
    "fencepost.core.webhooks.callback": "Webhooks",
    "fencepost.errors": (
        "ConfigurationError DependencyError DuplicateJobError EncryptionError FencepostError "
        "HandlerStopped InvalidCallbackError InvalidEventError InvalidJobError InvalidPayloadError "
        "JobCancelledError JobFailedError JobNotFoundError MissingKeyError "
        "PayloadTooLargeError PermanentError PlainContentError Snooze StaleLeaseError "
        "StateConflictError StoreUnavailableError SubmissionTimeoutError TamperedError "
        "TemporaryError UnknownOutcomeError WaitTimeoutError"
    ),
    "fencepost.observe.log": "JobLogFilter",
    "fencepost.worker": "BatchJob Context",
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = _lazily(__name__, _HOMES)

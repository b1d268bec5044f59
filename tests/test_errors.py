"""The tree of exceptions."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict

import pytest

from fencepost import errors
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    FencepostError,
    HandlerSignal,
    HandlerStopped,
    IllegalTransition,
    InvalidDurationError,
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    PayloadTooLargeError,
    PermanentError,
    Snooze,
    StaleLeaseError,
    StateConflictError,
    StoreError,
    StoreUnavailableError,
    TemporaryError,
    UnknownOutcomeError,
    WaitTimeoutError,
)

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
AT_A_CALLER = [kind for kind in CLASSES if issubclass(kind, FencepostError)]
IN_A_HANDLER = [kind for kind in CLASSES if issubclass(kind, HandlerSignal)]

# HTTP clients and scripts rely on these; a change here is a breaking change.
CODES = {
    "FencepostError": "error",
    "InvalidJobError": "invalid_job",
    "InvalidPayloadError": "invalid_payload",
    "PayloadTooLargeError": "payload_too_large",
    "InvalidKeyError": "invalid_key",
    "InvalidCallbackError": "invalid_callback",
    "InvalidEventError": "invalid_event",
    "DependencyError": "dependency",
    "UnknownDependencyError": "dependency_unknown",
    "DependencyCycleError": "dependency_cycle",
    "DependencyDepthError": "dependency_depth",
    "DependencyBreadthError": "dependency_breadth",
    "NoDependencyError": "dependency_none",
    "DuplicateNodeError": "dependency_node",
    "EmptyFlowError": "dependency_empty",
    "FlowNotFoundError": "flow_not_found",
    "ConfigurationError": "configuration",
    "InvalidDurationError": "invalid_duration",
    "UnknownTypeError": "unknown_type",
    "InvalidCronError": "invalid_cron",
    "InvalidRateError": "invalid_rate",
    "CronNotFoundError": "cron_not_found",
    "TokenNotFoundError": "token_not_found",
    "UnauthenticatedError": "unauthenticated",
    "ForbiddenError": "forbidden",
    "TooManyRequestsError": "rate_limited",
    "DuplicateJobError": "duplicate_key",
    "JobNotFoundError": "job_not_found",
    "ReplayNotFoundError": "replay_not_found",
    "StateConflictError": "state_conflict",
    "IllegalTransition": "illegal_transition",
    "StaleLeaseError": "stale_lease",
    "JobFailedError": "job_failed",
    "JobCancelledError": "job_cancelled",
    "WaitTimeoutError": "wait_timeout",
    "WebhookVerificationError": "webhook_verification",
    "EncryptionError": "encryption",
    "MissingKeyError": "key_missing",
    "TamperedError": "corrupt",
    "PlainContentError": "not_encrypted",
    "StoreError": "store_error",
    "StoreUnavailableError": "store_unavailable",
    "ForkedStoreError": "forked_store",
    "ForeignFileError": "foreign_file",
    "SchemaError": "schema",
    "UnknownOutcomeError": "unknown_outcome",
    "SubmissionTimeoutError": "submission_timeout",
    "ServerError": "server_error",
}


def test_every_error_has_a_stable_code_of_its_own() -> None:
    """S0-78, C15: what HTTP and the command line show."""
    codes = {kind.__name__: kind.code for kind in AT_A_CALLER}
    assert {name: codes[name] for name in CODES} == CODES
    assert len(set(codes.values())) == len(codes)


def test_the_drawing_shows_every_exception_below_its_parent() -> None:
    """S0-78: the docstring is the documentation."""
    lines = re.findall(r"^    ([│├└─ ]*)([A-Z][\w, ]+)$", errors.__doc__ or "", re.MULTILINE)
    drawn = [(len(indent) // 4, name) for indent, names in lines for name in names.split(", ")]
    assert {name for _, name in drawn} == {
        kind.__name__ for kind in [*AT_A_CALLER, *IN_A_HANDLER, HandlerStopped]
    }
    line: list[str] = []
    parents: defaultdict[str, set[str]] = defaultdict(set)
    for depth, name in drawn:
        del line[depth:]
        parents[name] |= set(line[-1:])
        line.append(name)
    for name, above in parents.items():
        bases = {base.__name__ for base in getattr(errors, name).__bases__}
        assert above == bases - {"Exception", "BaseException"}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_every_exception_says_what_it_means(kind: type) -> None:
    """S0-78."""
    if issubclass(kind, BaseException):
        assert kind.__doc__


def test_the_three_kinds_of_store_error_exclude_each_other() -> None:
    """C38, S1-40: surely not done, or perhaps done, but never both."""
    for kind in AT_A_CALLER:
        kinds = [issubclass(kind, k) for k in (StoreUnavailableError, UnknownOutcomeError)]
        assert sum(kinds) <= 1
        assert not any(kinds) or issubclass(kind, StoreError)


def test_a_submission_that_was_not_acknowledged_may_have_been_stored() -> None:
    """C38, S1-40."""
    assert issubclass(errors.SubmissionTimeoutError, UnknownOutcomeError)


def test_a_duration_is_wrong_in_a_setting_and_in_a_job_alike() -> None:
    """S1-46."""
    assert issubclass(InvalidDurationError, ConfigurationError)
    assert issubclass(InvalidDurationError, InvalidJobError)


def test_a_duplicate_carries_the_existing_job() -> None:
    """C15, S1-9."""
    bare = DuplicateJobError(type="mail", key="k", existing_id="j")
    assert (bare.type, bare.key, bare.existing_id, bare.existing) == ("mail", "k", "j", "j")
    assert str(bare) == "key 'k' of type 'mail' is held by job j"
    handle = object()
    rich = DuplicateJobError(type="mail", key="k", existing_id="j", existing=handle)
    assert rich.existing is handle


def test_a_payload_that_is_too_large_says_by_how_much_and_what_to_do() -> None:
    """S1-91."""
    error = PayloadTooLargeError(2_000_000, 1_000_000)
    assert (error.size, error.limit) == (2_000_000, 1_000_000)
    assert "2,000,000 bytes is over the limit of 1,000,000" in str(error)
    assert "submit a reference" in str(error)


def test_a_conflict_names_the_job_and_its_state() -> None:
    """S3-11, S3-18."""
    error = StateConflictError("no", job_id="j", state="completed")
    assert (str(error), error.job_id, error.state) == ("no", "j", "completed")
    assert StateConflictError("no").job_id is None


def test_an_illegal_transition_is_a_conflict_that_names_the_event() -> None:
    """S1-30."""
    error = IllegalTransition("completed", "be cancelled")
    assert isinstance(error, StateConflictError)
    assert (error.state, error.event, error.job_id) == ("completed", "be cancelled", None)
    assert str(error) == "a completed job cannot be cancelled"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (JobNotFoundError("j"), "no job has the id j"),
        (StaleLeaseError("j"), "the lease on job j is no longer valid; stop"),
        (JobCancelledError("j"), "job j was cancelled"),
        (
            JobFailedError("j", category="permanent", message="no", failure_code="E1"),
            "job j failed (permanent): no",
        ),
        (WaitTimeoutError("j", 2.5, "running"), "job j is still running after 2.5 s"),
    ],
)
def test_an_error_about_a_job_names_it(error: FencepostError, message: str) -> None:
    """S0-78, S1-16."""
    assert str(error).startswith(message)
    assert vars(error)["job_id"] == "j"


def test_a_failed_job_shows_its_category_and_code() -> None:
    """S1-80, S1-89."""
    error = JobFailedError("j", category="permanent", message="no", failure_code="E1")
    assert (error.category, error.failure_code) == ("permanent", "E1")


def test_a_wait_that_was_too_short_shows_the_state() -> None:
    """S1-99."""
    assert WaitTimeoutError("j", 1, "retrying").state == "retrying"


def test_what_a_handler_raises_is_no_error_of_ours() -> None:
    """S1-88, S1-89: `except FencepostError` in a handler must not swallow its own signal."""
    assert not set(AT_A_CALLER) & set(IN_A_HANDLER)


def test_a_temporary_error_carries_its_cause_and_the_least_to_wait() -> None:
    """S1-88."""
    cause = TimeoutError("slow")
    error = TemporaryError("no", cause, retry_after="5s")
    assert (str(error), error.__cause__, error.retry_after) == ("no", cause, "5s")
    assert TemporaryError().retry_after is None


def test_a_permanent_error_carries_its_cause_and_a_code() -> None:
    """S1-89."""
    cause = KeyError("id")
    error = PermanentError("no", cause, code="missing")
    assert (str(error), error.__cause__, error.code) == ("no", cause, "missing")
    assert PermanentError().code is None


def test_a_snooze_carries_its_delay() -> None:
    """S1-14."""
    assert Snooze("5m").delay == "5m"


@pytest.mark.parametrize("name", ["HandlerStopped", "PermanentError", "Snooze", "TemporaryError"])
def test_a_signal_is_named_as_handlers_import_it(name: str) -> None:
    """Failures record this name, and tracebacks show it."""
    assert getattr(errors, name).__module__ == "fencepost.errors"


def test_an_error_of_a_user_may_have_a_mixin_with_a_hook() -> None:
    heard: list[type] = []

    class Mixin:
        def __init_subclass__(cls, **options: object) -> None:
            super().__init_subclass__(**options)
            heard.append(cls)

    class Refused(errors.InvalidJobError, Mixin, code="refused"): ...

    assert heard == [Refused]
    assert Refused.code == "refused"

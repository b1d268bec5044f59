"""Problem documents become the exceptions that an app raises."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import Any

import pytest

from fencepost import errors
from fencepost.client.problems import error_of, is_surely_undone, kinds
from fencepost.client.transport import HttpReply, Request
from fencepost.errors import ConfigurationError, FencepostError, ServerError, UnknownOutcomeError
from fencepost.http.request.problems import problem_of

PROMISED: dict[type, tuple[str, ...]] = {
    errors.PayloadTooLargeError: ("size", "limit"),
    errors.DuplicateJobError: ("type", "key", "existing_id", "existing"),
    errors.JobNotFoundError: ("job_id",),
    errors.UnknownDependencyError: ("job_id",),
    errors.CronNotFoundError: ("name",),
    errors.TokenNotFoundError: ("name",),
    errors.TooManyRequestsError: ("retry_after",),
    errors.StateConflictError: ("job_id", "state"),
    errors.IllegalTransition: ("event", "state"),
    errors.StaleLeaseError: ("job_id", "state"),
    errors.MissingKeyError: ("key_id",),
}
"""Attributes that the constructors set, which are not called here."""

REQUEST = Request("POST", "/v1/jobs", body=b"{}")


def answer(status: int, **fields: Any) -> FencepostError | None:
    told = {"type": "t", "title": "No", "status": status, "detail": "because", "request_id": "r"}
    return error_of(HttpReply(status, json.dumps({**told, **fields}).encode()), REQUEST)


def test_every_exception_has_a_way_back() -> None:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, FencepostError):
            error = answer(409, code=kind.code, existing="e", job_id="j", state="running")
            assert type(error) is kind
            assert str(error) == "because"
            for name in PROMISED.get(kind, ()):
                assert hasattr(error, name), (kind, name)


@pytest.mark.parametrize(
    "error",
    [
        errors.StaleLeaseError("j", "running"),
        errors.StateConflictError("no", job_id="j", state="completed"),
        errors.JobNotFoundError("j"),
        errors.TooManyRequestsError(2.5),
        errors.PayloadTooLargeError(11, 10),
    ],
)
def test_what_the_server_raised_is_what_the_caller_meets(error: FencepostError) -> None:
    import msgspec

    problem = problem_of(error, "r-1")
    there = error_of(HttpReply(problem.status, msgspec.json.encode(problem)), REQUEST)
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert {name: getattr(there, name) for name in vars(error)} == vars(error)


def test_a_code_of_another_version_is_a_server_error() -> None:
    error = answer(422, code="brand_new")
    assert isinstance(error, ServerError)
    assert (error.status, error.server_code) == (422, "brand_new")
    assert isinstance(answer(500, code="internal_error"), UnknownOutcomeError)


@pytest.mark.parametrize("code", ["not_ready", "too_many_bodies", "too_many_connections"])
def test_a_server_without_room_has_surely_done_nothing(code: str) -> None:
    """So that a submission is sent again, also one that cannot be repeated otherwise."""
    error = answer(503, code=code, retry_after=1.0)
    assert error is not None
    assert is_surely_undone(error)


def test_a_bad_argument_is_a_bad_argument_on_both_sides() -> None:
    assert type(answer(422, code="invalid_request")) is ConfigurationError


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"\xff", b"{" * 10_000, b'{"code": 7}'])
def test_what_is_no_problem_document_is_told_as_such(data: bytes) -> None:
    assert isinstance(error_of(HttpReply(404, data), REQUEST), ServerError)
    assert isinstance(error_of(HttpReply(301, data), REQUEST), ServerError)
    assert isinstance(error_of(HttpReply(502, data), REQUEST), UnknownOutcomeError)


def test_codes_are_those_of_the_tree_alone() -> None:
    """Importing a server does not change what a client raises."""
    assert all(kind.__module__ == "fencepost.errors" for kind in kinds().values())


def test_a_client_loads_no_server_and_no_store() -> None:
    """Whoever only submits pays for neither."""
    code = (
        "import sys, fencepost.client; "
        "print([m for m in sys.modules if m.startswith(('fencepost.store', 'fencepost.http', "
        "'fencepost.app', 'starlette', 'uvicorn', 'httpx', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

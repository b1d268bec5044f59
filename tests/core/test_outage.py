"""Dead letters that an outage explains."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fencepost.core.job.failure import OUTAGE_SPAN, is_brief, is_outage
from fencepost.core.job.job import Attempt, AttemptOutcome, Category, Failure

START = datetime(2026, 1, 1, tzinfo=UTC)


def raised(exception: str | None, category: Category = Category.TEMPORARY) -> Failure:
    return Failure(category, "it failed", exception=exception)


@pytest.mark.parametrize(
    "exception",
    [
        "builtins.ConnectionError",
        "builtins.ConnectionRefusedError",
        "builtins.ConnectionResetError",
        "builtins.BrokenPipeError",
        "builtins.TimeoutError",
        "socket.gaierror",
        "urllib.error.URLError",
        "http.client.RemoteDisconnected",
        "httpx.ConnectError",
        "httpx.ReadTimeout",
        "requests.exceptions.ConnectionError",
        "urllib3.exceptions.MaxRetryError",
        "aiohttp.client_exceptions.ClientConnectorError",
        "aiohttp.client_exceptions.ServerDisconnectedError",
        "botocore.exceptions.EndpointConnectionError",
        "psycopg.OperationalError",
        "sqlalchemy.exc.OperationalError",
        "psycopg.InterfaceError",
        "google.api_core.exceptions.ServiceUnavailable",
        "fencepost.errors.StoreUnavailableError",
    ],
)
def test_an_error_about_a_connection_is_an_outage(exception: str) -> None:
    assert is_outage(raised(exception))


@pytest.mark.parametrize(
    "exception",
    [
        "builtins.ValueError",
        "builtins.KeyError",
        "connection.FormatError",
        "app.timeouts.Bad",
        None,
    ],
)
def test_another_error_is_not_whatever_its_module_is_called(exception: str | None) -> None:
    assert not is_outage(raised(exception))


@pytest.mark.parametrize("category", [Category.PERMANENT, Category.SYSTEM, Category.TIMEOUT])
def test_only_failures_that_are_retried_in_hope_of_better_times_count(category: Category) -> None:
    assert not is_outage(raised("builtins.ConnectionError", category))


def attempts(*seconds: float) -> list[Attempt]:
    """Attempts that began after so many seconds and took none."""
    return [
        Attempt(
            id=str(number),
            job_id="j",
            previous_id=None,
            number=number,
            lease_version=number,
            worker="w",
            outcome=AttemptOutcome.FAILED,
            started_at=START + timedelta(seconds=after),
            ended_at=START + timedelta(seconds=after),
        )
        for number, after in enumerate(seconds, 1)
    ]


def test_attempts_are_brief_if_all_lie_within_a_few_seconds() -> None:
    assert is_brief(attempts(0, 1, 3))
    assert is_brief(attempts(0, OUTAGE_SPAN))
    assert not is_brief(attempts(0, 1, OUTAGE_SPAN + 1))


def test_a_single_attempt_was_the_users_choice() -> None:
    assert not is_brief(attempts(0))
    assert not is_brief(attempts())

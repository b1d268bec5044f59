"""A client shows its token, and is told what it is not for."""

from __future__ import annotations

import pytest
from tests.http.serving import serving

from fencepost import App, Client
from fencepost.errors import ForbiddenError, TooManyRequestsError, UnauthenticatedError


def test_roles_and_rates_are_told_by_their_exceptions(app: App) -> None:
    """Issue 6.4."""
    submitter = app.tokens.create("submitter", roles="submit").text
    slow = app.tokens.create("slow", roles="read", rate=0.01).text
    with serving(app, is_local=False) as server:
        with Client(server.url) as nobody, pytest.raises(UnauthenticatedError):
            nobody.queues.list()
        with Client(server.url, submitter) as client:
            job = client.submit("add", {"a": 1, "b": 2})
            assert job.refresh().state == "scheduled"
            with pytest.raises(ForbiddenError):
                job.cancel()
        with Client(server.url, slow) as client:
            client.queues.list()
            with pytest.raises(TooManyRequestsError) as raised:
                client.queues.list()
            assert raised.value.retry_after > 60

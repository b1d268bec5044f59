"""A client shows its token, and is told what it is not for."""

from __future__ import annotations

import pytest
from tests.http.serving import Served, serving

from fencepost import App, Client
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.errors import (
    DuplicateJobError,
    ForbiddenError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from fencepost.testing import drain


def test_roles_and_rates_are_told_by_their_exceptions(app: App) -> None:
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


def test_what_another_submitted_has_no_result_to_show(app: App, server: Served) -> None:
    """A key may return the job of another token: how it stands is told, and not what came of it."""
    tokens = {name: app.tokens.create(name, roles=["submit"]).text for name in ("one", "two")}
    with (
        Client(server.url, tokens["one"]) as one,
        Client(server.url, tokens["two"]) as two,
    ):
        job = one.submit("add", {"a": 1, "b": 2}, key="k")
        same = two.submit("add", {"a": 1, "b": 2}, key="k")
        assert same.id == job.id
        drain(app)
        assert job.result(timeout=20) == 3
        assert same.refresh().state == "completed"
        with pytest.raises(ForbiddenError, match="the token that submitted it"):
            same.result(timeout=20)


def test_a_key_that_is_held_out_of_reach_is_refused_without_a_name(
    app: App, server: Served
) -> None:
    """C15: there is no job to attach to, as far as this token goes."""
    token = app.tokens.create("mail", roles=["submit", "read"], queues=["mail"]).text
    with Client(server.url, token) as client:
        app.session.submit(NewJob(type="letter", queue="other", key=Key("k")))
        with pytest.raises(DuplicateJobError) as caught:
            client.submit("letter", {}, key="k", queue="mail")
    assert (caught.value.existing_id, caught.value.existing) == (None, None)

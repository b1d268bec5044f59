"""Tokens at work: what a request is answered with, and what is on record afterwards."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from fencepost import App
from fencepost.errors import StoreUnavailableError
from fencepost.http import asgi
from fencepost.observe.log import FIELDS
from fencepost.store.memory.store import MemoryStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def app() -> App:
    return App(store=MemoryStore(clock=FakeClock()))


async def ask(app: App, token: str | None, method: str, path: str, **more: Any) -> httpx.Response:
    transport = httpx.ASGITransport(asgi(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://queue.example") as client:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return await client.request(method, path, headers=headers, **more)


def on_record(app: App) -> list[tuple[str, str, int | None]]:
    actions = [each for each in app.audit.list() if not each.action.startswith("token.")]
    return [(each.action, each.target, each.status) for each in actions]


async def test_who_is_not_known_is_asked_for_a_token(app: App) -> None:
    """With a problem document and a challenge; health needs none."""
    for token in (None, "fp_forged"):
        answer = await ask(app, token, "GET", "/v1/queues")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "unauthenticated"
        assert "fencepost tokens create" in answer.json()["detail"]
    assert (await ask(app, None, "GET", "/health/live")).status_code == 200


async def test_a_role_allows_what_it_is_called_and_no_more(app: App) -> None:
    reader = app.tokens.create("reader", roles="read").text
    assert (await ask(app, reader, "GET", "/v1/queues")).status_code == 200
    answer = await ask(app, reader, "POST", "/v1/queues/mail/pause")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert on_record(app) == [("queue.pause", "mail", 403)]


async def test_too_many_requests_are_told_when_to_come_back(app: App) -> None:
    token = app.tokens.create("slow", roles="read", rate=0.5).text
    transport = httpx.ASGITransport(asgi(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://queue.example") as client:
        client.headers["authorization"] = f"Bearer {token}"
        assert (await client.get("/v1/queues")).status_code == 200
        answer = await client.get("/v1/queues")
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert answer.headers["retry-after"] == "2"


async def test_a_store_that_is_away_is_not_a_wrong_token(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = app.tokens.create("ci", roles="read").text

    async def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(MemoryStore, "run_async", away)
    answer = await ask(app, token, "GET", "/v1/queues")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_an_operators_action_is_on_record_with_its_outcome(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log before it is tried, so that a crash leaves a trace."""
    caplog.set_level(logging.DEBUG, "fencepost")
    token = app.tokens.create("ops", roles="operate")
    caplog.clear()
    assert (await ask(app, token.text, "POST", "/v1/queues/mail/pause")).status_code == 200
    missing = "7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11"
    answer = await ask(app, token.text, "POST", f"/v1/jobs/{missing}/cancel")
    assert answer.status_code == 404
    assert [(target, status) for _, target, status in on_record(app)] == [
        (missing, 404),
        ("mail", 200),
    ]
    last = app.audit.list().actions[0]
    assert (last.principal, last.principal_id) == ("ops", token.record.id)
    assert last.request_id == answer.headers["x-request-id"]
    told = [
        (fields["phase"], fields.get("status"))
        for each in caplog.records
        if vars(each).get("fencepost_event") == "audit.action" and (fields := getattr(each, FIELDS))
    ]
    assert told == [("begin", None), ("end", 200), ("begin", None), ("end", 404)]
    everything = caplog.text + str([getattr(each, FIELDS, "") for each in caplog.records])
    assert token.text.rpartition("_")[2] not in everything

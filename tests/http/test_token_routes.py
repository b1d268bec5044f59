"""Tokens over HTTP: created and shown once, listed without secrets, and revoked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.conftest import Caller

from fencepost import App
from fencepost.http import asgi


@pytest.fixture
async def admin(app: App) -> AsyncIterator[Caller]:
    token = app.tokens.create("root", roles="admin").text
    transport = httpx.ASGITransport(app=asgi(app), raise_app_exceptions=True)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://api.example", headers=headers
    ) as client:
        yield Caller(client)


async def test_a_token_is_shown_once_and_works_until_it_is_revoked(app: App, admin: Caller) -> None:
    body = {"name": "ci", "roles": ["read"], "queues": ["mail"], "expires": "1h", "rate": 5}
    response = await admin.ask("POST", "/v1/tokens", body)
    assert response.status_code == 201
    made = response.json()
    text = made.pop("token")
    assert response.headers["location"] == f"/v1/tokens/{made['id']}"
    assert text.startswith(f"fp_{made['id']}_")
    assert (made["roles"], made["queues"], made["rate"]) == (["read"], ["mail"], 5.0)
    listed = await admin.ask("GET", "/v1/tokens")
    assert [each["name"] for each in listed.json()["tokens"]] == ["root", "ci"]
    assert listed.json()["tokens"][1] == made
    assert text not in listed.text
    assert "digest" not in listed.text
    own = {"authorization": f"Bearer {text}"}
    me = await admin.get("/v1/me", headers=own)
    assert (me["name"], me["queues"]) == ("ci", ["mail"])
    assert (await admin.ask("DELETE", f"/v1/tokens/{made['id']}")).status_code == 204
    assert (await admin.ask("GET", "/v1/me", headers=own)).status_code == 401
    (_, gone) = (await admin.get("/v1/tokens"))["tokens"]
    assert gone["revoked_at"] is not None
    actions = [(each.principal, each.action, each.status) for each in app.audit.list(limit=2)]
    assert actions == [("root", "token.revoke", 204), ("root", "token.create", 201)]
    (_, created) = app.audit.list(limit=2)
    assert created.detail["id"] == made["id"]
    assert text.rpartition("_")[2] not in str(created.detail)


@pytest.mark.parametrize("token_id", ["0123456789ab", "root", "x"])
async def test_an_unknown_token_is_not_found(admin: Caller, token_id: str) -> None:
    refused = await admin.refused("DELETE", f"/v1/tokens/{token_id}")
    assert refused == (404, "token_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x"},
        {"name": "x", "roles": []},
        {"name": "x", "roles": ["king"]},
        {"name": "", "roles": ["read"]},
        {"name": "x", "roles": ["read"], "queues": []},
        {"name": "x", "roles": ["read"], "rate": -1},
        {"name": "x", "roles": ["read"], "expires": "never"},
    ],
    ids=str,
)
async def test_what_makes_no_token_is_refused(app: App, admin: Caller, body: Any) -> None:
    assert (await admin.refused("POST", "/v1/tokens", body))[0] == 422
    assert len(app.tokens.list()) == 1


async def test_a_flow_has_its_edges_as_far_as_one_may_see(app: App, admin: Caller) -> None:
    nodes = {
        "fetch": {"type": "t", "queue": "a"},
        "other": {"type": "t", "queue": "b"},
        "report": {"type": "t", "queue": "a", "after": ["fetch", "other"]},
        "last": {"type": "t", "queue": "a", "after_any": ["report"]},
    }
    token = app.tokens.create("a", roles=["read"], queues=["a"]).text
    flow = (await admin.post("/v1/flows", {"nodes": nodes}, status=201))["id"]
    all_edges = (await admin.get(f"/v1/flows/{flow}"))["edges"]
    assert sorted((each["from"], each["to"], each["mode"]) for each in all_edges) == [
        ("fetch", "report", "all"),
        ("other", "report", "all"),
        ("report", "last", "any"),
    ]
    own = {"authorization": f"Bearer {token}"}
    seen = (await admin.get(f"/v1/flows/{flow}", headers=own))["edges"]
    assert seen == [each for each in all_edges if each["from"] != "other"]

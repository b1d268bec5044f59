"""The audit log of a server: what bulk actions were for, dry runs as such, and refused tries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from tests.http.clocked import app as app

from fencepost import App
from fencepost.core.access.audit import Action
from fencepost.core.access.bounds import AUDIT_REFUSED_MAX, AUDIT_REFUSED_WINDOW
from fencepost.core.bounds import TAG_COUNT_MAX
from fencepost.http import asgi
from fencepost.testing.clock import FakeClock

Ask = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
async def ask(app: App) -> AsyncIterator[Ask]:
    transport = httpx.ASGITransport(asgi(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://queue.example") as client:

        async def ask(token: str | None, path: str, body: Any = None) -> httpx.Response:
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            return await client.post(path, headers=headers, json=body)

        yield ask


def on_record(app: App) -> list[Action]:
    return [each for each in app.audit.list(limit=100) if not each.action.startswith("token.")]


@pytest.mark.requirement("S1-95")
async def test_what_payloads_are_compared_with_is_not_recorded(app: App, ask: Ask) -> None:
    token = app.tokens.create("ops", roles=["operate", "read"]).text
    where = ["payload.user.email=ann@x", "payload.age>=18", "result.a!=b=c", "no condition: ann@x"]
    edit: dict[str, Any] = {"edit": {"priority": 1}}
    for path, more in (("cancel", {}), ("retry", {}), ("edit", edit)):
        await ask(token, f"/v1/jobs/{path}", {"where": where[:3], **more})
        action = on_record(app)[0]
        assert action.detail["conditions"]["where"] == [
            "payload.user.email=…",
            "payload.age>=…",
            "result.a!=…",
        ]
    await ask(token, "/v1/jobs/cancel", {"where": where})
    assert "ann" not in str([action.detail for action in on_record(app)])


async def test_a_bulk_action_is_recorded_with_its_conditions(app: App, ask: Ask) -> None:
    token = app.tokens.create("ops", roles="operate").text
    conditions = {"type": "mail", "state": ["scheduled"], "tags": {"team": "a"}}
    answer = await ask(token, "/v1/jobs/cancel", conditions)
    assert answer.status_code == 200
    [action] = on_record(app)
    assert (action.action, action.status) == ("jobs.cancel", 200)
    assert action.detail == {"conditions": conditions, "count": 0}
    assert (await ask(token, "/v1/dead-letters/replay", {"type": "mail"})).status_code == 200
    [action, _] = on_record(app)
    assert action.detail == {"conditions": {"type": "mail"}, "count": 0}


async def test_a_dry_run_is_recorded_as_one(app: App, ask: Ask) -> None:
    token = app.tokens.create("ops", roles="operate").text
    answer = await ask(token, "/v1/jobs/cancel", {"type": "mail", "dry_run": True})
    assert answer.json() == {"count": 0, "dry_run": True}
    [action] = on_record(app)
    assert action.detail == {"conditions": {"type": "mail"}, "dry_run": True, "count": 0}


async def test_long_words_do_not_hide_what_an_action_was_for(app: App, ask: Ask) -> None:
    token = app.tokens.create("ops", roles="operate").text
    tags = {f"{number:02}" + "\U0001f4a3" * 62: "x" * 256 for number in range(TAG_COUNT_MAX)}
    answer = await ask(token, "/v1/jobs/cancel", {"type": "mail", "tags": tags})
    assert answer.status_code == 200
    [action] = on_record(app)
    assert action.detail["conditions"]["type"] == "mail"
    assert len(action.detail["conditions"]["tags"]) == TAG_COUNT_MAX
    assert action.detail["count"] == 0


async def test_a_refused_try_is_recorded_with_who_what_and_why(app: App, ask: Ask) -> None:
    reader = app.tokens.create("reader", roles="read")
    ops = app.tokens.create("ops", roles="operate", queues=["mine"])
    answer = await ask(reader.text, "/v1/queues/mail/pause")
    assert answer.status_code == 403
    assert (await ask("fp_forged", "/v1/queues/mail/pause")).status_code == 401
    assert (await ask(ops.text, "/v1/queues/mail/pause")).status_code == 403
    assert (await ask(ops.text, "/v1/types/mail/pause")).status_code == 403
    assert (await ask(ops.text, "/v1/jobs/cancel", {"nonsense": 1})).status_code == 422
    malformed, store_wide, foreign, forged, unfit = on_record(app)
    assert (unfit.principal, unfit.principal_id) == ("reader", reader.record.id)
    assert (unfit.action, unfit.target, unfit.status) == ("queue.pause", "mail", 403)
    assert unfit.request_id == answer.headers["x-request-id"]
    assert unfit.detail["refused"] == "forbidden"
    assert "operate" in unfit.detail["why"]
    assert (forged.principal, forged.principal_id, forged.status) == ("unknown", None, 401)
    assert forged.detail["refused"] == "unauthenticated"
    assert [(each.principal, each.status) for each in (foreign, store_wide)] == [("ops", 403)] * 2
    assert (malformed.action, malformed.detail) == ("jobs.cancel", {"refused": "invalid_request"})


async def test_a_flood_of_refused_tries_is_counted(app: App, ask: Ask, clock: FakeClock) -> None:
    """Nobody fills the disk by being refused: neither without a token nor with several roles."""
    reader = app.tokens.create("reader", roles="read")
    ops = app.tokens.create("ops", roles="operate")
    missing = "7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11"
    for _ in range(AUDIT_REFUSED_MAX + 5):
        await ask(None, "/v1/queues/mail/pause")
        await ask(reader.text, "/v1/queues/mail/pause")
        await ask(ops.text, f"/v1/jobs/{missing}/cancel")
    assert len(on_record(app)) == 3 * AUDIT_REFUSED_MAX
    clock.advance(AUDIT_REFUSED_WINDOW)
    assert (await ask(ops.text, "/v1/queues/mail/pause")).status_code == 200
    done, *rest = on_record(app)
    assert done.action == "queue.pause"
    told = {each.principal: each.detail for each in rest if each.action == "refused.more"}
    counted = {"count": 5, "seconds": AUDIT_REFUSED_WINDOW}
    assert told == {"unknown": counted, "reader": counted, "ops": counted}
    await ask(reader.text, "/v1/queues/mail/pause")
    assert on_record(app)[0].principal == "reader"

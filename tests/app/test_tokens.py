"""``app.tokens`` and ``app.audit``: who may use the HTTP API, and who did what."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from fencepost import App
from fencepost.actions.local.access import Auditor, begin
from fencepost.core.access.tokens import Principal, Role, verify
from fencepost.errors import ConfigurationError, StoreUnavailableError, TokenNotFoundError
from fencepost.observe.log import FIELDS
from fencepost.store.memory.store import MemoryStore
from fencepost.testing.clock import FakeClock


@pytest.fixture
def app() -> App:
    return App(store=MemoryStore(clock=FakeClock()))


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [
        getattr(each, FIELDS)
        for each in caplog.records
        if vars(each).get("fencepost_event", "").startswith("audit.")
    ]


def test_a_token_is_made_listed_and_revoked(app: App) -> None:
    token = app.tokens.create(
        "ci", roles=["read", "submit"], queues=["mail"], expires="90d", rate=100
    )
    (record,) = app.tokens.list()
    now = app.session.clock.now()
    assert record == token.record
    assert verify(token.text, record, now)
    assert (record.roles, record.queues) == ((Role.SUBMIT, Role.READ), ("mail",))
    assert (record.expires_at, record.rate) == (now + timedelta(days=90), 100.0)
    assert app.tokens.revoke("ci") == record.id
    assert not verify(token.text, app.tokens.list()[0], now)


def test_both_faces_do_the_same(app: App) -> None:
    async def use() -> None:
        token = await app.aio.tokens.create("ci", roles="admin")
        assert [each.id for each in await app.aio.tokens.list()] == [token.record.id]
        assert await app.aio.tokens.revoke(token.record.id) == token.record.id
        assert len(await app.aio.audit.list()) == 2

    asyncio.run(use())


def test_each_token_is_its_own(app: App) -> None:
    texts = {app.tokens.create("ci", roles="read").text for _ in range(20)}
    assert len(texts) == 20


def test_a_name_that_means_several_is_refused_and_the_last_of_them_is_not(app: App) -> None:
    """Rotation: the new one is there before the old one goes."""
    old = app.tokens.create("ci", roles="read").record.id
    app.session.clock.sleep(1.0)
    new = app.tokens.create("ci", roles="read").record.id
    with pytest.raises(TokenNotFoundError, match=f"by its id: {old}, {new}"):
        app.tokens.revoke("ci")
    assert app.tokens.revoke(old) == old
    assert app.tokens.revoke("ci") == new
    assert app.tokens.revoke("ci") == new, "to revoke again is harmless"
    with pytest.raises(TokenNotFoundError, match="no token has the id or the name 'cd'"):
        app.tokens.revoke("cd")


@pytest.mark.parametrize(
    "options",
    [
        {"roles": []},
        {"roles": "root"},
        {"roles": "read", "queues": []},
        {"roles": "read", "expires": 0},
        {"roles": "read", "expires": "soon"},
        {"roles": "read", "rate": 0},
        {"roles": "read", "name": "0123456789ab"},
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(
    app: App, options: dict[str, Any]
) -> None:
    name = options.pop("name", "ci")
    with pytest.raises(ConfigurationError):
        app.tokens.create(name, **options)
    assert app.tokens.list() == []
    assert app.audit.list().actions == []


def test_who_makes_and_ends_tokens_is_on_record(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """In the log of the process before and after, and in the store; no secret in any."""
    caplog.set_level(logging.INFO, "fencepost")
    token = app.tokens.create("ci", roles="read", expires=60)
    app.tokens.revoke(token.record.id)
    page = app.audit.list()
    assert [(each.action, each.target) for each in page] == [
        ("token.revoke", token.record.id),
        ("token.create", token.record.id),
    ]
    assert page.actions[1].detail["roles"] == ["read"]
    assert page.actions[1].at == app.session.clock.now()
    assert [(each["phase"], each["action"]) for each in lines(caplog)] == [
        ("begin", "token.create"),
        ("end", "token.create"),
        ("begin", "token.revoke"),
        ("end", "token.revoke"),
    ]
    said = json.dumps([lines(caplog), [repr(each) for each in page]], default=str) + caplog.text
    assert token.text.rpartition("_")[2] not in said
    assert token.record.digest.hex() not in said


def test_the_log_is_read_page_by_page(app: App) -> None:
    for _ in range(3):
        app.tokens.create("ci", roles="read")
    page = app.audit.list(limit=2)
    assert len(page) == 2
    rest = app.audit.list(limit=2, after=page.next)
    assert (len(rest), rest.next) == (1, None)
    for cursor in ("x", page.next and page.next[:-1], "ZTE6MQ"):
        with pytest.raises(ConfigurationError, match="not a cursor"):
            app.audit.list(after=cursor)


async def test_a_server_records_what_was_done_with_its_status(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fencepost")
    auditor = Auditor(app.session)
    action = begin(app.session, Principal.local(), "job.cancel", target="j1", request_id="r1")
    assert [each["phase"] for each in lines(caplog)] == ["begin"], "a crash now leaves this"
    await auditor.end(action, 409)
    await auditor.end(action, 409)
    (found,) = app.audit.list()
    assert (found.action, found.target, found.request_id, found.status) == (
        "job.cancel",
        "j1",
        "r1",
        409,
    )


async def test_what_was_done_stays_done_when_the_store_takes_no_record(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that says so says all that the record would have said."""
    auditor = Auditor(app.session)
    action = begin(app.session, Principal.local(), "job.cancel", target="j1")

    async def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(MemoryStore, "run_async", away)
    await auditor.end(action, 200)
    failed = lines(caplog)[-1]
    assert (failed["target"], failed["status"], failed["code"]) == ("j1", 200, "store_unavailable")
    assert app.session.counters.get("audit.failed") == 1

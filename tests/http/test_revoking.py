"""A token that was revoked, or is good for less, while a request of it waits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.http.conftest import Caller
from tests.http.messages import part
from tests.http.serving import PATIENCE, serving

from fencepost import App
from fencepost.core.access.bounds import (
    TOKEN_CACHE_SECONDS,
    TOKEN_RECHECK_SECONDS,
    TOKEN_REVOKED_SECONDS,
)
from fencepost.core.access.tokens import NewToken
from fencepost.core.bounds import POLL_INTERVAL
from fencepost.http import asgi

SOON = 0.02
NEVER = 1_000.0
WAIT = "50s"
"""Far longer than a test lasts: nothing ends by itself."""


def test_what_a_server_goes_by_ends_in_time() -> None:
    """What is let in by tokens read before, looked at again, and noticed at the next poll."""
    latest = TOKEN_CACHE_SECONDS + TOKEN_RECHECK_SECONDS + POLL_INTERVAL
    assert latest <= TOKEN_REVOKED_SECONDS - 1.0
    # A stream looks by itself, between its polls.
    assert 2 * TOKEN_RECHECK_SECONDS + POLL_INTERVAL <= TOKEN_REVOKED_SECONDS - 1.0


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let in by what was read before, for ever; look again at once."""
    monkeypatch.setattr("fencepost.http.authentication.TOKEN_CACHE_SECONDS", NEVER)
    monkeypatch.setattr("fencepost.http.authentication.TOKEN_RECHECK_SECONDS", 0.0)
    for place in ("request.call", "operations.stream"):
        monkeypatch.setattr(f"fencepost.http.{place}.TOKEN_RECHECK_SECONDS", SOON)


class Asked:
    """A caller with a token that the server knows, and what it asks for."""

    def __init__(self, app: App, *, queues: list[str] | None = None, rate: float = 1e6) -> None:
        self.app = app
        roles = ["submit", "read", "work"]
        self.token: NewToken = app.tokens.create("mine", roles=roles, queues=queues, rate=rate)
        self.bearer = f"Bearer {self.token.text}"
        transport = httpx.ASGITransport(app=asgi(app), raise_app_exceptions=True)
        self.client = httpx.AsyncClient(
            transport=transport,
            base_url="http://api.example",
            headers={"authorization": self.bearer},
        )
        self.caller = Caller(self.client)

    async def known(self) -> str:
        """Have the server read the tokens; return the id of a job that does not end."""
        return await self.caller.submit("work", queue="a", delay="1h")

    def narrowed(self, queues: str | None, path: Path) -> None:
        """Bind the token to queues, past every API: no other way leads there."""
        with sqlite3.connect(path) as connection:
            connection.execute("update tokens set queues = ?", (queues,))

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE):
            refused: tuple[int, str] = await self.caller.refused(method, path, body)
        await self.client.aclose()
        return refused


CLAIM = {"worker": "w", "types": ["work"], "timeout": WAIT}


async def test_a_wait_ends_with_its_token(app: App) -> None:
    asked = Asked(app)
    job_id = await asked.known()
    app.tokens.revoke(asked.token.record.id)
    refused = await asked.refused("GET", f"/v1/jobs/{job_id}/wait?timeout={WAIT}")
    assert refused == (401, "unauthenticated")


async def test_a_claim_ends_with_its_token(app: App) -> None:
    asked = Asked(app)
    await asked.known()
    app.tokens.revoke(asked.token.record.id)
    assert await asked.refused("POST", "/v1/claims", CLAIM) == (401, "unauthenticated")


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "comes"])
async def test_a_job_is_not_handed_out_to_a_token_that_is_no_longer_good(
    app: App, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """It was claimed before anybody looked again: it is given back, and the attempt not counted."""
    monkeypatch.setattr("fencepost.http.request.call.TOKEN_RECHECK_SECONDS", NEVER)
    asked = Asked(app)
    await asked.known()
    app.tokens.revoke(asked.token.record.id)
    submit = app.session.submit_async
    from fencepost.core.job.job import NewJob

    new = NewJob(type="work", queue="a")
    job_id = (await submit(new)).id if is_there else None
    claiming = asyncio.create_task(asked.refused("POST", "/v1/claims", CLAIM))
    if job_id is None:
        await asyncio.sleep(SOON)
        job_id = (await submit(new)).id
    assert await claiming == (401, "unauthenticated")
    job = app.jobs.get(job_id).refresh()
    assert (job.state, job.attempt) == ("scheduled", 0)


async def test_to_look_again_is_no_request_that_counts(app: App) -> None:
    """A token with a rate may wait for as long as any other."""
    asked = Asked(app, rate=0.01)
    asked.caller.client.headers["x-request-id"] = "r"
    reply = await asked.caller.post("/v1/claims", {**CLAIM, "timeout": 10 * SOON})
    assert reply["jobs"] == []
    await asked.client.aclose()


def test_a_stream_ends_with_its_token(app: App) -> None:
    asked = Asked(app)
    with serving(app, is_local=False) as served:
        headers = {"authorization": asked.bearer}
        httpx.get(f"{served.url}/v1/jobs", headers=headers).raise_for_status()
        app.tokens.revoke(asked.token.record.id)
        with (
            httpx.Client(base_url=served.url, timeout=PATIENCE, headers=headers) as client,
            client.stream("GET", "/v1/stream") as response,
        ):
            assert response.status_code == 200
            assert len(response.read()) < 100_000  # to its end, which comes


async def test_a_body_that_arrives_late_finds_its_token_revoked(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.http.request.endpoint.TOKEN_RECHECK_SECONDS", 0.0)
    asked = Asked(app)
    served = asgi(app)
    sent: list[Any] = []
    coming = [part(b'{"type": "work",', is_last=False), part(b'"queue": "a"}')]

    async def receive() -> Any:
        if len(coming) == 1:
            await asyncio.to_thread(app.tokens.revoke, asked.token.record.id)
        return coming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": "x", "content-type": "application/json", "authorization": asked.bearer}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/jobs",
        "raw_path": b"/v1/jobs",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
    }
    await served(scope, receive, send)
    assert sent[0]["status"] == 401
    assert list(app.jobs.find()) == []
    await asked.client.aclose()


Ask = Callable[[str], tuple[str, str, Any]]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("ask", "refusal"),
    [
        (lambda job_id: ("GET", f"/v1/jobs/{job_id}/wait?timeout=1s", None), "job_not_found"),
        (lambda _: ("POST", "/v1/claims", CLAIM), "forbidden"),
    ],
    ids=["wait", "claim"],
)
async def test_what_waits_is_answered_by_what_its_token_is_good_for_now(
    app: App, tmp_path: Path, ask: Ask, refusal: str
) -> None:
    """SQLite alone: no API narrows a token, so its row is written to."""
    asked = Asked(app)
    job_id = await asked.known()
    asked.narrowed('["b"]', tmp_path / "jobs.db")
    if refusal == "forbidden":
        await app.aio.jobs.cancel(job_id)
        from fencepost.core.job.job import NewJob

        job_id = (await app.session.submit_async(NewJob(type="work", queue="a"))).id
    method, path, body = ask(job_id)
    assert (await asked.refused(method, path, body))[1] == refusal
    assert app.jobs.get(job_id).refresh().attempt == 0


WAITING: dict[str, tuple[Ask, Any]] = {
    "wait": (lambda job_id: ("GET", f"/v1/jobs/{job_id}/wait?timeout={WAIT}", None), 404),
    "claim": (lambda _: ("POST", "/v1/claims", CLAIM), []),
    "claim of a queue": (lambda _: ("POST", "/v1/claims", {**CLAIM, "queues": ["a"]}), 403),
}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("what", WAITING)
async def test_what_waits_ends_when_its_token_is_narrowed(
    app: App, tmp_path: Path, what: str
) -> None:
    """Though nothing happens that it waits for: else the answer would tell when it does."""
    asked = Asked(app)
    job_id = await asked.known()
    ask, wanted = WAITING[what]
    method, path, body = ask(job_id)
    asked.narrowed('["b"]', tmp_path / "jobs.db")
    async with asyncio.timeout(PATIENCE):
        reply = await asked.caller.ask(method, path, body)
    await asked.client.aclose()
    if isinstance(wanted, int):
        assert reply.status_code == wanted
    else:
        assert (reply.status_code, reply.json()["jobs"]) == (200, wanted)

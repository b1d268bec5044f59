"""What a token with the role ``submit`` alone sees: its own jobs, and of others how they stand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.conftest import Caller

from fencepost import App
from fencepost.http import asgi

SECRET = "for-its-submitter-alone"
BODIES = {f"{name}{how}" for name in ("payload", "result", "checkpoint") for how in ("", "_base64")}


class Tokens:
    """Callers by the roles of their tokens, on one application."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._served = asgi(app)
        self._made: list[httpx.AsyncClient] = []

    def caller(self, name: str, *roles: str) -> Caller:
        token = self._app.tokens.create(name, roles=roles).text
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self._served, raise_app_exceptions=True),
            base_url="http://api.example",
            headers={"authorization": f"Bearer {token}"},
        )
        self._made.append(client)
        return Caller(client)

    async def close(self) -> None:
        for client in self._made:
            await client.aclose()


@pytest.fixture
async def tokens(app: App) -> AsyncIterator[Tokens]:
    made = Tokens(app)
    yield made
    await made.close()


async def ended(worker: Caller, job_id: str, how: str) -> None:
    """Run a job that leaves something behind that is not for everybody."""
    (claimed,) = await worker.claim(types=["work"])
    assert claimed["id"] == job_id
    lease = {"id": job_id, "token": claimed["lease"]["token"]}
    await worker.post("/v1/leases/checkpoint", {**lease, "checkpoint": SECRET})
    await worker.post("/v1/leases/progress", {**lease, "fraction": 0.5, "message": SECRET})
    if how == "completed":
        await worker.post("/v1/leases/ack", {**lease, "result": SECRET})
    elif how == "failed":
        failure = {"category": "permanent", "message": SECRET, "traceback": SECRET}
        await worker.post("/v1/leases/nack", {**lease, **failure})


WORK: dict[str, Any] = {"type": "work", "payload": {"x": SECRET}, "key": "k", "tags": {"t": "u"}}


@pytest.mark.parametrize("roles", [["submit"], ["submit", "work", "operate"]], ids=len)
@pytest.mark.parametrize("how", ["running", "completed", "failed"])
async def test_a_submitter_sees_of_the_jobs_of_others_how_they_stand(
    tokens: Tokens, how: str, roles: list[str]
) -> None:
    """By the id and by the key; what the job holds is for its submitter and for readers."""
    worker = tokens.caller("worker", "work")
    mine = tokens.caller("mine", "submit")
    other = tokens.caller("other", *roles)
    reader = tokens.caller("reader", "read")
    job_id = (await mine.post("/v1/jobs", WORK, status=201))["id"]
    await ended(worker, job_id, how)
    paths = [f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/wait?timeout=0"]
    for path in paths:
        seen = await other.ask("GET", path)
        assert SECRET not in seen.text
        assert not BODIES & seen.json().keys()
        assert seen.json()["state"] == how
        assert seen.json()["key"] == "k"
        assert seen.json()["failure"] is None
        assert seen.json()["withheld"] is True
    again = {**WORK, "payload": {"x": "mine"}}
    existing = await other.ask("POST", "/v1/jobs", again)
    assert (existing.status_code, existing.json()["id"]) == (200, job_id)
    assert SECRET not in existing.text
    assert await other.refused("GET", f"/v1/jobs/{job_id}/result") == (403, "forbidden")
    for caller in (mine, reader):
        for path in paths:
            seen = await caller.get(path)
            assert seen["payload"] == {"x": SECRET}
            assert "withheld" not in seen
            if how == "completed":
                assert seen["result"] == SECRET
            if how == "failed":
                assert seen["failure"]["traceback"] == SECRET
    existing = await mine.post("/v1/jobs", WORK)
    assert (existing["failure"] is None) is (how != "failed")
    if how == "completed":
        for caller in (mine, reader):
            assert (await caller.get(f"/v1/jobs/{job_id}/result"))["result"] == SECRET


async def test_flows_batches_and_replays_have_a_submitter_too(tokens: Tokens) -> None:
    worker = tokens.caller("worker", "work")
    mine, other = tokens.caller("mine", "submit"), tokens.caller("other", "submit")
    operator = tokens.caller("operator", "operate")
    nodes = {"x": {"type": "work", "payload": {"x": SECRET}, "retry": {"max_attempts": 1}}}
    flow = await mine.post("/v1/flows", {"nodes": nodes}, status=201)
    job_id = flow["jobs"]["x"]["id"]
    await ended(worker, job_id, "failed")
    assert SECRET in (await mine.ask("GET", f"/v1/flows/{flow['id']}")).text
    assert SECRET not in (await other.ask("GET", f"/v1/flows/{flow['id']}")).text
    fresh = (await operator.post(f"/v1/dead-letters/{job_id}/replay", status=201))["id"]
    assert (await mine.get(f"/v1/jobs/{fresh}"))["payload"] == {"x": SECRET}
    assert "payload" not in await other.get(f"/v1/jobs/{fresh}")
    batch = await mine.post("/v1/jobs/batch", {"jobs": [WORK, {"type": "plain"}]}, status=201)
    for each in batch["jobs"]:
        assert "payload" in await mine.get(f"/v1/jobs/{each['id']}")
        assert "payload" not in await other.get(f"/v1/jobs/{each['id']}")


async def test_events_have_a_submitter_too(app: App, tokens: Tokens) -> None:
    @app.event("user.created").on
    def welcome(x: str) -> None: ...

    mine, other = tokens.caller("mine", "submit"), tokens.caller("other", "submit")
    sent = await mine.post("/v1/events/user.created", {"payload": {"x": SECRET}}, status=202)
    (made,) = sent["jobs"]
    assert (await mine.get(f"/v1/jobs/{made['id']}"))["payload"] == {"x": SECRET}
    assert "payload" not in await other.get(f"/v1/jobs/{made['id']}")


async def test_a_job_submitted_without_a_token_is_nobodys(app: App, tokens: Tokens) -> None:
    """The app's own jobs, and those of crons, are no token's: readers see them."""
    from fencepost.actions.options import Options
    from fencepost.app import TaskHandle

    task: TaskHandle[..., Any] = TaskHandle(app.session, app.session.task("add"), Options())
    job_id = task.submit(7).id
    callers = {role: tokens.caller(role, role) for role in ("submit", "read", "admin")}
    seen = {role: await each.get(f"/v1/jobs/{job_id}") for role, each in callers.items()}
    assert [role for role, view in seen.items() if "payload" in view] == ["read", "admin"]

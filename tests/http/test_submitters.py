"""What a token with the role ``submit`` alone sees: its own jobs, and of others how they stand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.conftest import Caller

from fencepost import App, Webhooks
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
    elif how == "retrying":
        failure = {"category": "temporary", "message": SECRET, "retry_after": "1h"}
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


STEPS: dict[str, tuple[str, str, Any]] = {
    "cancel": ("POST", "/cancel", None),
    "retry": ("POST", "/retry", {}),
    "tags": ("PATCH", "", {"tags": {"t": "v"}}),
    "priority": ("PATCH", "", {"priority": 0}),
    "payload": ("PATCH", "", {"payload": {"x": "another"}}),
    "type": ("PATCH", "", {"type": "another"}),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", ["delayed", "running", "retrying", "completed", "failed"])
async def test_what_an_operator_is_answered_has_no_content_of_others(
    app: App, tokens: Tokens, how: str, step: str
) -> None:
    """Whatever it does to a job, and however that stands: failure, progress and callback."""
    app.session.webhooks = Webhooks(secrets=["whsec_" + "A" * 43 + "="])
    mine, worker = tokens.caller("mine", "submit"), tokens.caller("worker", "work")
    operator, both = tokens.caller("operator", "operate"), tokens.caller("b", "operate", "read")
    body = {**WORK, "callback_url": f"https://example.com/{SECRET}", "retry": {"max_attempts": 2}}
    delay = {"delay": 60} if how == "delayed" else {}
    job_id = (await mine.post("/v1/jobs", body | delay, status=201))["id"]
    if how != "delayed":
        await ended(worker, job_id, how)
    method, path, given = STEPS[step]
    answer = await operator.ask(method, f"/v1/jobs/{job_id}{path}", given)
    assert SECRET not in answer.text
    if answer.status_code == 200:
        assert answer.json()["withheld"] is True
    answer = await both.ask("PATCH", f"/v1/jobs/{job_id}", {"tags": {}})
    assert answer.json()["callback_url"].endswith(SECRET)


async def test_an_operator_cannot_have_the_result_of_another_sent_to_an_address(
    app: App, tokens: Tokens
) -> None:
    app.session.webhooks = Webhooks(secrets=["whsec_" + "A" * 43 + "="])
    mine, operator = tokens.caller("mine", "submit", "operate"), tokens.caller("o", "operate")
    path = "/v1/jobs/" + (await mine.post("/v1/jobs", WORK, status=201))["id"]
    there = {"callback_url": "https://example.com/mine"}
    assert await operator.refused("PATCH", path, there) == (403, "forbidden")
    assert (await mine.get(path))["callback_url"] is None
    for caller, edit in ((mine, there), (operator, {"callback_url": ""})):
        assert (await caller.ask("PATCH", path, edit)).status_code == 200
    assert (await mine.get(path))["callback_url"] is None


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


OTHER = {**WORK, "payload": {"x": "another", "y": 1}}
DIFFERS = ["$.x", "$.y"]


async def told(caller: Caller) -> list[Any]:
    """Return what each way to submit OTHER says of the job that holds its key."""
    rejecting = {**OTHER, "on_duplicate": "reject"}
    one = await caller.post("/v1/jobs", OTHER)
    two, three = (await caller.post("/v1/jobs/batch", {"jobs": [OTHER, rejecting]}, status=201))[
        "jobs"
    ]
    four = (await caller.post("/v1/flows", {"nodes": {"a": OTHER}}, status=201))["jobs"]["a"]
    assert [each["duplicate"] for each in (one, two, four)] == [True] * 3
    problem = (await caller.client.post("/v1/jobs", json=rejecting)).json()
    assert (three["code"], problem["code"]) == ("duplicate_key", "duplicate_key")
    assert ("$.x" in problem["detail"]) is ("$.x" in three["detail"]) is ("differs" in problem)
    return [each.get("differs") for each in (one, two, three, four, problem)]


async def test_a_duplicate_says_where_its_payload_differs_to_who_may_see_it(
    tokens: Tokens,
) -> None:
    """Otherwise a payload could be guessed, field by field."""
    owner, other = tokens.caller("owner", "submit"), tokens.caller("other", "submit")
    reader = tokens.caller("reader", "submit", "read")
    await owner.post("/v1/jobs", WORK, status=201)
    assert await told(owner) == await told(reader) == [DIFFERS] * 5
    assert await told(other) == [None] * 5
    assert (await owner.post("/v1/jobs", WORK))["differs"] == []

"""Looking at jobs and steering them over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.http.conftest import Caller

from fencepost import App
from fencepost.core.access.tokens import Principal
from fencepost.testing import drain

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


async def run_all(app: App) -> None:
    await asyncio.to_thread(drain, app)


async def test_a_job_shows_all_there_is_to_see(api: Caller) -> None:
    job_id = await api.submit("add", {"a": 1}, tags={"tenant": "7"})
    job = await api.get(f"/v1/jobs/{job_id}")
    assert (job["id"], job["state"], job["priority"]) == (job_id, "scheduled", 1)
    assert (job["payload"], job["result"], job["tags"]) == ({"a": 1}, None, {"tenant": "7"})
    assert job["policy"]["max_attempts"] == 3
    assert job["policy"]["backoff"]["strategy"] == "exponential"


async def test_results_attempts_history_and_reasons_are_told(api: Caller, app: App) -> None:
    done = await api.submit("add", {"a": 1, "b": 2})
    failed = await api.submit("fail", {"message": "no"})
    why = await api.get(f"/v1/jobs/{done}/why")
    assert why["reasons"][0]["code"] == "no_worker"
    unmet = [check["code"] for check in why["checks"] if not check["is_met"]]
    assert unmet == ["workers"]
    assert await api.refused("GET", f"/v1/jobs/{done}/result") == (409, "state_conflict")
    await run_all(app)
    assert (await api.get(f"/v1/jobs/{done}/result"))["result"] == 3
    assert await api.refused("GET", f"/v1/jobs/{failed}/result") == (409, "state_conflict")
    (attempt,) = (await api.get(f"/v1/jobs/{failed}/attempts"))["attempts"]
    assert (attempt["outcome"], attempt["failure"]["category"]) == ("failed", "permanent")
    history = (await api.get(f"/v1/jobs/{failed}/history"))["history"]
    assert [change["state"] for change in history][-1] == "failed"
    (reason,) = (await api.get(f"/v1/jobs/{failed}/why"))["reasons"]
    assert "no" in reason["text"]


@pytest.mark.parametrize("part", ["", "/attempts", "/history", "/result", "/why", "/wait"])
@pytest.mark.parametrize("job_id", [NOBODY, "nonsense", "x" * 300])
async def test_what_is_not_there_is_not_found(api: Caller, part: str, job_id: str) -> None:
    assert await api.refused("GET", f"/v1/jobs/{job_id}{part}") == (404, "job_not_found")


async def test_a_wait_ends_with_the_job(api: Caller, app: App) -> None:
    job_id = await api.submit("add", {"a": 1})
    waiting = asyncio.create_task(api.get(f"/v1/jobs/{job_id}/wait", params={"timeout": "30s"}))
    await asyncio.sleep(0)
    await run_all(app)
    job = await waiting
    assert (job["state"], job["result"]) == ("completed", 1)


async def test_a_wait_that_is_over_shows_the_job_as_it_is(api: Caller) -> None:
    job_id = await api.submit("add", {"a": 1})
    for timeout in ("0", "0.01", "10ms"):
        job = await api.get(f"/v1/jobs/{job_id}/wait", params={"timeout": timeout})
        assert job["state"] == "scheduled"
    for timeout in ("61", "-1", "nan", "soon"):
        path = f"/v1/jobs/{job_id}/wait?timeout={timeout}"
        assert await api.refused("GET", path) == (422, "invalid_duration")


async def test_pages_follow_each_other_without_gap_or_repeat(api: Caller) -> None:
    ids = [await api.submit("add", {"a": n}) for n in range(7)]
    seen: list[str] = []
    cursor = None
    for _ in range(4):
        params = {"limit": "2"} | ({"after": cursor} if cursor else {})
        page = await api.get("/v1/jobs", params=params)
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["next"]
    assert cursor is None
    assert seen == ids[::-1]
    assert "payload" not in page["jobs"][0]


async def test_every_condition_narrows_a_search(api: Caller) -> None:
    mine = await api.submit(
        "add", {"a": 1}, queue="mail", tags={"t": "a:b", "u": "1"}, correlation_id="c", delay=60
    )
    await api.submit("fail", {"message": "x"})
    created = (await api.get(f"/v1/jobs/{mine}"))["created_at"]
    for params in (
        {"state": "delayed"},
        {"state": ["delayed", "running"]},
        {"type": "add"},
        {"queue": "mail"},
        {"tag": ["t:a:b", "u:1"]},
        {"correlation_id": "c"},
        {"id_prefix": mine[:13].upper()},
        {"type": "add", "created_after": created},
        {"type": "add", "created_before": "2100-01-01T00:00:00Z"},
    ):
        page = await api.get("/v1/jobs", params=params)
        assert [job["id"] for job in page["jobs"]] == [mine], params
    assert (await api.get("/v1/jobs", params={"created_before": created}))["jobs"] == []


@pytest.mark.parametrize(
    "query",
    [
        "state=nonsense",
        "limit=0",
        "limit=1001",
        "limit=x",
        "after=nonsense",
        "after=",
        "tag=nocolon",
        "id_prefix=",
        "id_prefix=xyz",
        "nonsense=1",
        "type=a&type=b",
        "created_after=yesterday",
        "created_after=2030-01-01T00:00:00",
        "%FF=1",
        "type=%FF",
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(api: Caller, query: str) -> None:
    status, _ = await api.refused("GET", f"/v1/jobs?{query}")
    assert status == 422


async def test_a_job_is_cancelled_once(api: Caller) -> None:
    """S3-11."""
    job_id = await api.submit("add", {"a": 1})
    assert (await api.post(f"/v1/jobs/{job_id}/cancel"))["state"] == "cancelled"
    assert await api.refused("POST", f"/v1/jobs/{job_id}/cancel") == (409, "state_conflict")
    assert await api.refused("POST", f"/v1/jobs/{NOBODY}/cancel") == (404, "job_not_found")


async def test_many_are_cancelled_by_conditions_and_a_dry_run_only_counts(api: Caller) -> None:
    for n in range(3):
        await api.submit("add", {"a": n}, tags={"batch": "1"})
    other = await api.submit("add", {"a": 9})
    body = {"tags": {"batch": "1"}}
    assert await api.post("/v1/jobs/cancel", {**body, "dry_run": True}) == {
        "count": 3,
        "dry_run": True,
    }
    assert await api.post("/v1/jobs/cancel", body) == {"count": 3, "dry_run": False}
    assert (await api.get(f"/v1/jobs/{other}"))["state"] == "scheduled"
    for everything in ({}, {"dry_run": True}):
        assert (await api.refused("POST", "/v1/jobs/cancel", everything))[0] == 422


async def test_a_failed_job_is_run_again_unless_its_key_is_taken(api: Caller, app: App) -> None:
    """S3-18."""
    job_id = await api.submit("fail", {"message": "no"}, key="k", key_window="active")
    assert await api.refused("POST", f"/v1/jobs/{job_id}/retry") == (409, "state_conflict")
    await run_all(app)
    holder = await api.submit("fail", {"message": "no"}, key="k", key_window="active")
    response = await api.ask("POST", f"/v1/jobs/{job_id}/retry")
    assert (response.status_code, response.json()["code"]) == (409, "duplicate_key")
    assert response.json()["existing"] == holder
    await api.post(f"/v1/jobs/{holder}/cancel")
    body = {"delay": "1h", "priority": 0, "reset_attempts": True}
    again = await api.post(f"/v1/jobs/{job_id}/retry", body)
    assert (again["state"], again["priority"]) == ("delayed", 0)


async def test_priority_and_tags_are_edited(api: Caller) -> None:
    job_id = await api.submit("add", {"a": 1}, tags={"a": "1"})
    response = await api.ask("PATCH", f"/v1/jobs/{job_id}", {"priority": 4, "tags": {"b": "2"}})
    assert response.status_code == 200
    assert (response.json()["priority"], response.json()["tags"]) == (4, {"b": "2"})
    refused = await api.refused("PATCH", f"/v1/jobs/{job_id}", {"attempt": 1})
    assert refused == (422, "invalid_request")


async def test_what_operators_do_is_on_record(api: Caller, app: App) -> None:
    job_id = await api.submit("add", {"a": 1})
    response = await api.ask(
        "POST", f"/v1/jobs/{job_id}/cancel", headers={"x-request-id": "request-1"}
    )
    assert response.headers["x-request-id"] == "request-1"
    await api.post("/v1/queues/mail/pause")
    await api.get("/v1/jobs")
    actions = app.audit.list()
    assert [(a.action, a.target, a.status) for a in actions] == [
        ("queue.pause", "mail", 200),
        ("job.cancel", job_id, 200),
    ]
    assert (actions.actions[1].request_id, actions.actions[1].principal) == (
        "request-1",
        Principal.local().name,
    )


async def test_a_waiting_job_is_edited_and_hastened(api: Caller) -> None:
    """C45, C46, C48: over HTTP; what is refused says why."""
    job_id = await api.submit("other", {"x": 1}, delay="1h", correlation_id="c")
    path = f"/v1/jobs/{job_id}"
    body = {"payload_base64": "AP8=", "correlation_id": "", "run_at": "2026-01-01T00:00:00Z"}
    patched = (await api.ask("PATCH", path, body)).json()
    assert (patched["state"], patched["correlation_id"]) == ("scheduled", None)
    later = {"run_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    assert (await api.ask("PATCH", path, later)).json()["state"] == "delayed"
    late = {"run_at": "2999-01-01T00:00:00Z"}
    assert await api.refused("PATCH", path, late) == (422, "invalid_job")
    for fixed in ({"type": "another"}, {"queue": "another"}):
        assert await api.refused("PATCH", path, fixed) == (409, "state_conflict")
    hastened = await api.post(f"{path}/retry", {"delay": "10m"})
    assert hastened["state"] == "delayed"
    assert (await api.post(f"{path}/retry", {}))["state"] == "scheduled"
    assert await api.refused("POST", f"{path}/retry", {}) == (409, "state_conflict")
    (job,) = await api.claim()
    assert (job["id"], job["payload_base64"]) == (job_id, "AP8=")
    assert await api.refused("PATCH", path, {"payload": {}}) == (409, "state_conflict")

"""Many jobs at once: run again or cancelled, by conditions or by ids, tried first and guarded."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.conftest import Caller
from tests.http.test_letters import die
from tests.http.test_scope import Ways
from tests.http.test_scope import ways as ways

from fencepost import App

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


async def states(api: Caller, *ids: str) -> list[str]:
    return [(await api.get(f"/v1/jobs/{job_id}"))["state"] for job_id in ids]


async def test_jobs_are_run_again_by_ids(api: Caller, app: App) -> None:
    dead, other = await die(api), await die(api)
    late = await api.submit("letter", queue="mail", delay=3600)
    body: dict[str, Any] = {"ids": [dead.upper(), dead, late, NOBODY]}
    dry = await api.post("/v1/jobs/retry", {**body, "dry_run": True})
    assert dry == {"count": 2, "dry_run": True}
    assert await states(api, dead, late) == ["failed", "delayed"]
    assert await api.post("/v1/jobs/retry", body) == {"count": 2, "dry_run": False}
    assert await states(api, dead, late, other) == ["scheduled", "scheduled", "failed"]
    (action,) = app.audit.list(limit=1)
    assert (action.action, action.detail) == (
        "jobs.retry",
        {"conditions": {"reset_attempts": True}, "ids": 4, "count": 2},
    )
    assert await api.post("/v1/jobs/retry", body) == {"count": 0, "dry_run": False}


async def test_jobs_are_run_again_by_conditions(api: Caller) -> None:
    dead = await die(api)
    cancelled = await api.submit("letter", queue="mail")
    await api.post(f"/v1/jobs/{cancelled}/cancel")
    late = await api.submit("letter", queue="mail", delay=3600)
    elsewhere = await die(api, "bulk")
    assert (await api.post("/v1/jobs/retry", {"queue": "mail"}))["count"] == 2
    found = await states(api, dead, cancelled, late, elsewhere)
    assert found == ["scheduled", "scheduled", "delayed", "failed"]
    only = {"queue": "mail", "state": ["delayed", "completed"]}
    assert (await api.post("/v1/jobs/retry", only))["count"] == 1
    assert (await api.post("/v1/jobs/retry", {"state": ["completed"]}))["count"] == 0


async def test_jobs_are_cancelled_by_ids(api: Caller) -> None:
    one, two = [await api.submit("letter", queue="mail") for _ in range(2)]
    dead = await die(api, "bulk")
    body = {"ids": [one, dead, NOBODY]}
    dry = await api.post("/v1/jobs/cancel", {**body, "dry_run": True})
    assert dry == {"count": 1, "dry_run": True}
    assert await api.post("/v1/jobs/cancel", body) == {"count": 1, "dry_run": False}
    assert await states(api, one, two, dead) == ["cancelled", "scheduled", "failed"]


@pytest.mark.parametrize("verb", ["retry", "cancel"])
async def test_more_than_was_expected_is_refused(api: Caller, verb: str) -> None:
    jobs = [await die(api) for _ in range(3)]
    if verb == "cancel":
        jobs = [await api.submit("letter", queue="mail") for _ in range(3)]
    before = await states(api, *jobs)
    for body in ({"queue": "mail"}, {"ids": jobs}):
        asked = {**body, "expected": 2}
        refused = await api.refused("POST", f"/v1/jobs/{verb}", asked)
        assert refused == (409, "state_conflict")
    assert await states(api, *jobs) == before
    asked = {"queue": "mail", "expected": 3}
    assert (await api.post(f"/v1/jobs/{verb}", asked))["count"] == 3


@pytest.mark.parametrize("verb", ["retry", "cancel"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"dry_run": True},
        {"ids": [NOBODY], "queue": "mail"},
        {"ids": [NOBODY] * 10_001},
        {"ids": "x"},
        {"ids": ["x"]},
        {"ids": [""]},
        {"ids": []},
    ],
    ids=["nothing", "dry", "both", "many", "text", "no id", "empty id", "no ids"],
)
async def test_what_is_too_much_or_unclear_is_refused(api: Caller, verb: str, body: Any) -> None:
    assert (await api.refused("POST", f"/v1/jobs/{verb}", body))[0] in (413, 422)


async def test_a_token_for_a_queue_steers_its_own_jobs(ways: Ways) -> None:
    mine, theirs = await die(ways.all, "a"), await die(ways.all, "b")
    for dry_run in (True, False):
        body = {"ids": [mine, theirs], "dry_run": dry_run}
        assert (await ways.a.post("/v1/jobs/retry", body))["count"] == 1
    assert await states(ways.all, mine, theirs) == ["scheduled", "failed"]
    assert (await ways.a.post("/v1/jobs/retry", {"type": "letter"}))["count"] == 0
    await ways.all.post(f"/v1/jobs/{theirs}/retry")
    for dry_run in (True, False):
        body = {"ids": [mine, theirs], "dry_run": dry_run}
        assert (await ways.a.post("/v1/jobs/cancel", body))["count"] == 1
    assert await states(ways.all, mine, theirs) == ["cancelled", "scheduled"]
    refused = await ways.a.refused("POST", "/v1/jobs/retry", {"queue": "b"})
    assert refused == (403, "forbidden")

"""Many jobs changed at once: by ids or conditions, tried first, guarded, and safe to repeat."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.conftest import Caller
from tests.http.test_bulk import NOBODY, states
from tests.http.test_letters import die
from tests.http.test_scope import Ways
from tests.http.test_scope import ways as ways

from fencepost import App

PAST = "2000-01-01T00:00:00Z"
EDIT = "/v1/jobs/edit"


async def test_jobs_that_wait_get_a_priority_by_ids(api: Caller, app: App) -> None:
    one = await api.submit("add", {"a": 1}, delay=60)
    two = await api.submit("add", {"a": 2})
    dead = await die(api)
    body: dict[str, Any] = {"ids": [one.upper(), one, two, dead, NOBODY], "edit": {"priority": 0}}
    dry = await api.post(EDIT, {**body, "dry_run": True})
    assert dry == {"count": 2, "refused": {}, "dry_run": True}
    assert (await api.get(f"/v1/jobs/{one}"))["priority"] == 1
    for _ in range(2):  # a repeat is safe
        assert (await api.post(EDIT, body)) == {"count": 2, "refused": {}, "dry_run": False}
    for job_id, priority in ((one, 0), (two, 0), (dead, 2)):
        assert (await api.get(f"/v1/jobs/{job_id}"))["priority"] == priority
    (action,) = app.audit.list(limit=1)
    assert (action.action, action.detail) == (
        "jobs.edit",
        {"conditions": {"edit": {"priority": 0}}, "ids": 5, "count": 2},
    )


async def test_what_is_delayed_runs_now(api: Caller) -> None:
    late = [await api.submit("add", {"a": n}, delay=3600) for n in range(3)]
    other = await api.submit("add", {"a": 9}, delay=3600, queue="mail")
    body = {"state": ["delayed"], "queue": "sums", "edit": {"run_at": PAST}}
    assert (await api.post(EDIT, {**body, "expected": 3}))["count"] == 3
    assert await states(api, *late, other) == ["scheduled"] * 3 + ["delayed"]
    assert (await api.post(EDIT, body))["count"] == 0


async def test_tags_change_in_any_state_and_those_of_the_server_stay(api: Caller) -> None:
    dead = await die(api, message="x")
    waiting = await api.submit("add", {"a": 1}, tags={"old": "1"}, queue="mail")
    body = {"queue": "mail", "edit": {"tags": {"seen": "yes"}}}
    assert (await api.post(EDIT, body))["count"] == 2
    for job_id in (dead, waiting):
        assert (await api.get(f"/v1/jobs/{job_id}"))["tags"] == {"seen": "yes"}


async def test_refusals_are_counted_by_code(api: Caller) -> None:
    """One would fall due after its lifetime: as for a single job, it stays as it is."""
    short = await api.submit("add", {"a": 1}, lifetime="1h")
    long = await api.submit("add", {"a": 2}, lifetime="7d")
    at = (await api.get(f"/v1/jobs/{short}"))["expires_at"]
    answer = await api.post(EDIT, {"type": "add", "edit": {"run_at": at}})
    assert answer == {"count": 1, "refused": {"invalid_job": 1}, "dry_run": False}
    assert await states(api, short, long) == ["scheduled", "delayed"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"edit": {"priority": 1}},
        {"type": "add"},
        {"type": "add", "edit": {}},
        {"type": "add", "edit": {"priority": None}},
        {"type": "add", "edit": {"priority": 5}},
        {"type": "add", "edit": {"priority": "urgent"}},
        {"type": "add", "edit": {"payload": {}}},
        {"type": "add", "edit": {"run_at": "2030-01-01T00:00:00"}},
        {"type": "add", "edit": {"tags": {"a": ""}}},
        {"type": "add", "edit": {"tags": {"fencepost.x": "1"}}},
        {"ids": [NOBODY], "type": "add", "edit": {"priority": 1}},
        {"ids": [NOBODY], "priorities": [1], "edit": {"priority": 1}},
        {"ids": [NOBODY], "where": ["payload.a=1"], "edit": {"priority": 1}},
        {"ids": [], "edit": {"priority": 1}},
        {"ids": ["x"], "edit": {"priority": 1}},
        {"priorities": [5], "edit": {"priority": 1}},
        {"where": ["a=1"], "edit": {"priority": 1}},
    ],
    ids=str,
)
async def test_what_makes_no_sense_is_refused(api: Caller, body: Any) -> None:
    await api.submit("add", {"a": 1})
    assert (await api.refused("POST", EDIT, body))[0] == 422


async def test_more_than_was_expected_is_refused(api: Caller) -> None:
    ids = [await api.submit("add", {"a": n}) for n in range(3)]
    for body in ({"type": "add"}, {"ids": ids}):
        asked = {**body, "edit": {"priority": 4}, "expected": 2}
        assert await api.refused("POST", EDIT, asked) == (409, "state_conflict")
    assert {job["priority"] for job in (await api.get("/v1/jobs"))["jobs"]} == {1}


async def test_a_token_for_a_queue_edits_its_own_by_ids(ways: Ways) -> None:
    mine = await ways.all.submit("letter", {"to": "a"}, queue="a")
    theirs = await ways.all.submit("letter", {"to": "a"}, queue="b")
    body = {"ids": [mine, theirs], "edit": {"priority": 0}}
    for dry_run in (True, False):
        assert (await ways.a.post(EDIT, {**body, "dry_run": dry_run}))["count"] == 1
    assert (await ways.all.get(f"/v1/jobs/{theirs}"))["priority"] == 2

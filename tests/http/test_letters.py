"""Dead letters by conditions: listed, and replayed in part, patched, or only counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.http.conftest import Caller
from tests.http.test_scope import Ways
from tests.http.test_scope import ways as ways

from fencepost import App


async def die(api: Caller, queue: str = "mail", message: str = "no", **payload: Any) -> str:
    """Return the id of a job that has just died."""
    fields = {"queue": queue, "retry": {"max_attempts": 1}}
    job_id = await api.submit("letter", payload or {"to": "a"}, **fields)
    (claimed,) = await api.claim(queues=[queue])
    lease = {"id": job_id, "token": claimed["lease"]["token"]}
    failure = {"category": "permanent", "message": message, "exception": message}
    await api.post("/v1/leases/nack", {**lease, **failure})
    return job_id


async def listed(api: Caller, query: str = "") -> list[str]:
    """Return the ids of all pages."""
    ids, after = [], ""
    while True:
        page = await api.get(f"/v1/dead-letters?{query}{after}")
        ids += [each["job_id"] for each in page["dead_letters"]]
        if page["next"] is None:
            return ids
        after = f"&after={page['next']}"


async def group_of(api: Caller, job_id: str) -> str:
    groups = (await api.get("/v1/dead-letters/groups"))["groups"]
    (found,) = [group["id"] for group in groups if job_id in group["sample"]]
    return str(found)


async def test_dead_letters_are_listed_by_queue_group_and_time(api: Caller) -> None:
    one, two, three = await die(api), await die(api, "bulk"), await die(api, message="other")
    group = await group_of(api, three)
    assert await listed(api) == [three, two, one]
    assert await listed(api, "queue=mail&limit=1") == [three, one]
    assert await listed(api, f"group={group}") == [three]
    assert await listed(api, "group=none") == []
    at = (await api.get("/v1/dead-letters?queue=bulk"))["dead_letters"][0]["completed_at"]
    assert await listed(api, f"since={at}") == [three, two]
    assert await listed(api, f"until={at}&type=letter") == [one]
    (letter,) = (await api.get("/v1/dead-letters?queue=bulk"))["dead_letters"]
    (same,) = [
        each
        for each in (await api.get("/v1/dead-letters"))["dead_letters"]
        if each["job_id"] == two
    ]
    assert letter == same
    refused = await api.refused("GET", "/v1/dead-letters?queue=mail&after=ajE6NDI")
    assert refused == (422, "invalid_request")


async def test_a_dry_run_counts_and_changes_nothing(api: Caller) -> None:
    for _ in range(3):
        await die(api)
    reply = await api.post("/v1/dead-letters/replay", {"queue": "mail", "dry_run": True})
    assert reply == {"count": 3, "dry_run": True}
    assert len(await listed(api)) == 3


async def test_some_are_replayed_and_the_others_stay(api: Caller) -> None:
    one, two, three = [await die(api, message=str(n % 2)) for n in range(3)]
    group = await group_of(api, two)
    assert await api.post("/v1/dead-letters/replay", {"group": group}) == {"count": 1}
    assert await listed(api) == [three, one]
    ids = [one.upper(), two, "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"]
    assert await api.post("/v1/dead-letters/replay", {"ids": ids}) == {"count": 1}
    assert await listed(api) == [three]
    assert await api.post("/v1/dead-letters/replay", {"ids": []}) == {"count": 0}
    newer = await die(api, "bulk")
    sample = {"type": "letter", "limit": 1, "since": "2000-01-01T00:00:00Z"}
    assert await api.post("/v1/dead-letters/replay", sample) == {"count": 1}
    assert await listed(api) == [three], f"the most recent goes first: {newer}"


async def test_a_patch_replaces_fields_and_nothing_else(api: Caller, app: App) -> None:
    big = 2**63 + 1
    await die(api, to="a", number=big, note="é")
    body = {"queue": "mail", "patch": {"to": "b", "more": [1.50, None]}}
    assert await api.post("/v1/dead-letters/replay", body) == {"count": 1}
    (job,) = (await api.get("/v1/jobs?state=scheduled"))["jobs"]
    view = await api.ask("GET", f"/v1/jobs/{job['id']}")
    expected = {"to": "b", "number": big, "note": "é", "more": [1.5, None]}
    assert json.loads(view.text)["payload"] == expected
    assert str(big) in view.text
    (action,) = app.audit.list(limit=1)
    assert action.detail["patched"] == ["more", "to"]
    assert "é" not in str(action.detail), "content of users is not logged"


async def test_what_cannot_be_patched_stays_a_dead_letter(api: Caller) -> None:
    job_id = await api.submit("letter", queue="mail", retry={"max_attempts": 1})
    await api.post(f"/v1/jobs/{job_id}/cancel")
    body: dict[str, Any] = {"type": "letter", "queue": "mail", "payload_base64": "AAE="}
    body["retry"] = {"max_attempts": 1}
    binary = (await api.post("/v1/jobs", body, status=201))["id"]
    (claimed,) = await api.claim(queues=["mail"])
    lease = {"id": binary, "token": claimed["lease"]["token"], "category": "permanent"}
    await api.post("/v1/leases/nack", {**lease, "message": "no"})
    patch = {"queue": "mail", "patch": {"to": "b"}}
    assert await api.post("/v1/dead-letters/replay", patch) == {"count": 0}
    assert await listed(api) == [binary]


async def test_more_than_was_expected_is_refused(api: Caller) -> None:
    for _ in range(3):
        await die(api)
    asked = {"queue": "mail", "expected": 2}
    refused = await api.refused("POST", "/v1/dead-letters/replay", asked)
    assert refused == (409, "state_conflict")
    assert len(await listed(api)) == 3
    assert await api.post("/v1/dead-letters/replay", {**asked, "expected": 3}) == {"count": 3}


async def test_a_token_for_a_queue_replays_its_own(ways: Ways) -> None:
    mine, theirs = await die(ways.all, "a"), await die(ways.all, "b")
    assert await ways.a.post("/v1/dead-letters/replay", {"ids": [theirs]}) == {"count": 0}
    refused = await ways.a.refused("POST", "/v1/dead-letters/replay", {"queue": "b"})
    assert refused == (403, "forbidden")
    assert await listed(ways.a, "since=2000-01-01T00:00:00Z") == [mine]
    assert await ways.a.post("/v1/dead-letters/replay") == {"count": 1}
    assert await listed(ways.all) == [theirs]


@pytest.mark.parametrize("body", [{"patch": [1]}, {"expected": -1}, {"since": "x"}, {"no": 1}])
async def test_what_is_not_understood_is_refused(api: Caller, body: Any) -> None:
    assert (await api.refused("POST", "/v1/dead-letters/replay", body))[0] == 422


async def test_many_are_discarded_by_a_condition(api: Caller, app: App) -> None:
    one, two, three = [await die(api, message=str(n % 2)) for n in range(3)]
    body = {"group": await group_of(api, one)}
    counted = await api.post("/v1/dead-letters/discard", {**body, "dry_run": True})
    assert counted == {"count": 2, "dry_run": True}
    refused = await api.refused("POST", "/v1/dead-letters/discard", {**body, "expected": 1})
    assert refused == (409, "state_conflict")
    assert await listed(api) == [three, two, one]
    assert (await api.post("/v1/dead-letters/discard", body))["count"] == 2
    assert await listed(api) == [two]
    (action,) = app.audit.list(limit=1)
    assert (action.action, action.detail["count"]) == ("dead_letters.discard", 2)


@pytest.mark.parametrize("body", [{}, {"expected": 3}, {"dry_run": True}, {"no": 1}])
async def test_to_discard_all_a_condition_is_needed(api: Caller, body: Any) -> None:
    job_id = await die(api)
    assert (await api.refused("POST", "/v1/dead-letters/discard", body))[0] == 422
    assert await listed(api) == [job_id]


async def test_a_token_for_a_queue_discards_its_own(ways: Ways) -> None:
    await die(ways.all, "a")
    theirs = await die(ways.all, "b")
    refused = await ways.a.refused("POST", "/v1/dead-letters/discard", {"queue": "b"})
    assert refused == (403, "forbidden")
    reply = await ways.a.post("/v1/dead-letters/discard", {"type": "letter"})
    assert (reply["count"], await listed(ways.all)) == (1, [theirs])

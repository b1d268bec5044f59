"""Replays of many dead letters over HTTP: started, seen, steered and refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.conftest import Caller
from tests.http.test_letters import die, group_of, listed
from tests.http.test_scope import Ways
from tests.http.test_scope import ways as ways

from fencepost import App
from fencepost.core.bounds import REPLAYS_MAX
from fencepost.maintenance.replays import Replayer

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


async def start(api: Caller, **body: Any) -> Any:
    return await api.post("/v1/replays", body, status=201)


async def test_a_replay_is_started_goes_on_by_itself_and_is_seen(api: Caller, app: App) -> None:
    one, two = await die(api), await die(api)
    started = await start(api, type="letter", rate=1000, stop_above=0.5, stop_after=3)
    assert (started["state"], started["total"], started["left"]) == ("running", 2, 2)
    assert (started["stop_above"], started["stop_after"], started["skipped"]) == (0.5, 3, {})
    assert await api.get("/v1/replays") == {"replays": [started]}
    assert await Replayer(app.store).step() == 2
    over = await api.get(f"/v1/replays/{started['id']}")
    assert (over["state"], over["replayed"], over["open"], over["left"]) == ("done", 2, 2, 0)
    jobs = (await api.get("/v1/jobs?state=scheduled"))["jobs"]
    assert {job["replay_of"] for job in jobs} == {one, two}


async def test_it_is_held_resumed_and_stopped_and_that_is_audited(api: Caller, app: App) -> None:
    await die(api)
    id_ = (await start(api))["id"]
    for verb, state in (("hold", "held"), ("resume", "running"), ("stop", "stopped")):
        for _ in range(2):
            assert (await api.post(f"/v1/replays/{id_}/{verb}"))["state"] == state
    assert await Replayer(app.store).step() == 0
    assert len(await listed(api)) == 1
    for verb in ("hold", "resume"):
        refused = await api.refused("POST", f"/v1/replays/{id_.upper()}/{verb}")
        assert refused == (409, "state_conflict")
    done = [action.action for action in app.audit.list(limit=9)]
    assert done[::-1][:3] == ["replay.start", "replay.hold", "replay.hold"]
    (begun,) = [each for each in app.audit.list(limit=20) if each.action == "replay.start"]
    assert (begun.detail["id"], begun.detail["count"]) == (id_, 1)


async def test_conditions_a_sample_and_a_patch(api: Caller, app: App) -> None:
    big = 2**63 + 1
    one = await die(api, message="a", to="x", number=big)
    await die(api, message="b")
    group = await group_of(api, one)
    body = {"group": group, "queue": "mail", "sample": 5, "patch": {"to": "é"}}
    started = await start(api, **body)
    assert (started["total"], started["patched"], started["sample"]) == (1, ["to"], 5)
    await Replayer(app.store).step()
    (job,) = (await api.get("/v1/jobs?state=scheduled"))["jobs"]
    assert (await api.get(f"/v1/jobs/{job['id']}"))["payload"] == {"to": "é", "number": big}
    (action,) = app.audit.list(limit=1)
    assert action.detail["patched"] == ["to"]
    assert "é" not in str(action.detail), "content of users is not logged"


async def test_a_repeat_with_the_same_id_starts_one(api: Caller) -> None:
    await die(api)
    first = await start(api, id=NOBODY)
    assert await start(api, id=NOBODY.upper()) == first
    assert len((await api.get("/v1/replays"))["replays"]) == 1


async def test_more_than_was_expected_is_refused(api: Caller) -> None:
    for _ in range(3):
        await die(api)
    refused = await api.refused("POST", "/v1/replays", {"expected": 2})
    assert refused == (409, "state_conflict")
    assert await api.get("/v1/replays") == {"replays": []}
    assert (await start(api, expected=3))["total"] == 3


async def test_too_many_under_way_are_refused(api: Caller) -> None:
    ids = [(await start(api))["id"] for _ in range(REPLAYS_MAX)]
    assert await api.refused("POST", "/v1/replays", {}) == (409, "state_conflict")
    await api.post(f"/v1/replays/{ids[0]}/stop")
    await start(api)


@pytest.mark.parametrize("id_", [NOBODY, "x", "a" * 500])
async def test_an_unknown_id_is_not_found(api: Caller, id_: str) -> None:
    for method, end in (("GET", ""), ("POST", "/hold"), ("POST", "/resume"), ("POST", "/stop")):
        refused = await api.refused(method, f"/v1/replays/{id_}{end}")
        assert refused == (404, "replay_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {"rate": 0},
        {"rate": 1e9},
        {"sample": 0},
        {"stop_above": 20},
        {"stop_after": 0},
        {"stop_failures": 0},
        {"patch": [1]},
        {"id": "x"},
        {"id": ""},
        {"since": "yesterday"},
        {"type": ""},
        {"no": 1},
    ],
)
async def test_what_is_not_understood_is_refused(api: Caller, body: Any) -> None:
    assert (await api.refused("POST", "/v1/replays", body))[0] == 422
    assert await api.get("/v1/replays") == {"replays": []}


async def test_a_token_for_a_queue_replays_and_sees_its_own(ways: Ways, app: App) -> None:
    mine, theirs = await die(ways.all, "a"), await die(ways.all, "b")
    whole = await start(ways.all, queue="b", rate=0.01)
    assert await ways.a.get("/v1/replays") == {"replays": []}
    for method, end in (("GET", ""), ("POST", "/hold"), ("POST", "/resume"), ("POST", "/stop")):
        refused = await ways.a.refused(method, f"/v1/replays/{whole['id']}{end}")
        assert refused == (404, "replay_not_found")
    assert await ways.a.refused("POST", "/v1/replays", {"queue": "b"}) == (403, "forbidden")
    await ways.all.post(f"/v1/replays/{whole['id']}/stop")
    own = await start(ways.a)
    assert (own["total"], await ways.a.get("/v1/replays")) == (1, {"replays": [own]})
    await Replayer(app.store).step()
    assert await listed(ways.all) == [theirs], mine


async def test_the_id_of_another_replay_shows_nothing_of_it(ways: Ways) -> None:
    """A repeat with an id is answered with the replay that has it, if it is the same one."""
    await die(ways.all, "b")
    theirs = await start(ways.all, queue="b", rate=0.01)
    refused = await ways.a.refused("POST", "/v1/replays", {"id": theirs["id"]})
    assert refused == (409, "state_conflict")
    again = await ways.all.refused("POST", "/v1/replays", {"id": theirs["id"], "queue": "a"})
    assert again == (409, "state_conflict")
    assert await start(ways.all, id=theirs["id"], queue="b") == theirs


async def test_a_patch_may_hold_nulls(api: Caller, app: App) -> None:
    await die(api)
    await start(api, patch={"cc": [None, None]})
    await Replayer(app.store).step()
    (job,) = (await api.get("/v1/jobs?state=scheduled"))["jobs"]
    payload = (await api.get(f"/v1/jobs/{job['id']}"))["payload"]
    assert payload["cc"] == [None, None]

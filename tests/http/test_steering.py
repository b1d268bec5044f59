"""Queues, types, limits, dead letters, events, crons and flows over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from tests.http.conftest import Caller
from tests.http.test_scope import Ways
from tests.http.test_scope import ways as ways

from fencepost import App
from fencepost.testing import drain

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


async def run_all(app: App) -> None:
    await asyncio.to_thread(drain, app)


async def test_queues_are_listed_paused_resumed_and_limited(api: Caller) -> None:
    await api.submit("other", queue="mail")
    (queue,) = (await api.get("/v1/queues"))["queues"]
    assert (queue["name"], queue["counts"]) == ("mail", {"scheduled": 1})
    assert (await api.post("/v1/queues/mail/pause"))["is_paused"] is True
    assert await api.claim(queues=["mail"]) == []
    assert (await api.post("/v1/queues/mail/resume"))["is_paused"] is False
    response = await api.ask("PUT", "/v1/queues/mail/limit", {"max_running": 1})
    assert response.json()["max_running"] == 1
    await api.submit("other", queue="mail")
    assert len(await api.claim(queues=["mail"])) == 1
    response = await api.ask("PUT", "/v1/queues/mail/limit", {"max_running": None})
    assert response.json()["max_running"] is None
    assert len(await api.claim(queues=["mail"])) == 1


@pytest.mark.parametrize("limit", [-1, "x", 1.5, True])
async def test_a_limit_that_makes_no_sense_is_refused(api: Caller, limit: object) -> None:
    for path in ("/v1/queues/mail/limit", "/v1/limit"):
        status, _ = await api.refused("PUT", path, {"max_running": limit})
        assert status == 422


async def test_types_are_listed_paused_and_resumed(api: Caller) -> None:
    await api.submit("other")
    (view,) = (await api.get("/v1/types"))["types"]
    assert (view["name"], view["counts"]) == ("other", {"scheduled": 1})
    assert (await api.post("/v1/types/other/pause"))["is_paused"] is True
    assert await api.claim() == []
    assert (await api.post("/v1/types/other/resume"))["is_paused"] is False
    assert len(await api.claim()) == 1


@pytest.mark.parametrize("name", ["team/mail", "a b", "ä", "50%", "a?b#c", "pause"])
async def test_a_name_may_have_any_printable_letter(api: Caller, name: str) -> None:
    await api.submit(name, queue=name)
    quoted = quote(name, safe="/")  # encoded slashes lead nowhere
    assert (await api.post(f"/v1/queues/{quoted}/pause"))["name"] == name
    assert (await api.post(f"/v1/types/{quoted}/pause"))["name"] == name
    response = await api.ask("PUT", f"/v1/queues/{quoted}/limit", {"max_running": 1})
    assert response.json()["name"] == name
    assert (await api.get(f"/v1/scale/{quoted}"))["queue"] == name


async def test_the_whole_store_is_limited(api: Caller) -> None:
    await api.submit("other")
    response = await api.ask("PUT", "/v1/limit", {"max_running": 0})
    if response.status_code == 200:
        assert await api.claim() == []
    response = await api.ask("PUT", "/v1/limit", {"max_running": 5})
    assert response.json() == await api.get("/v1/limit") == {"max_running": 5}


async def test_dead_letters_are_listed_replayed_and_discarded(api: Caller, app: App) -> None:
    """S3-24, S3-25."""
    one, two, three = [await api.submit("fail", {"message": str(n)}) for n in range(3)]
    await run_all(app)
    page = await api.get("/v1/dead-letters", params={"limit": "2"})
    rest = await api.get("/v1/dead-letters", params={"after": page["next"]})
    listed = [letter["job_id"] for letter in page["dead_letters"] + rest["dead_letters"]]
    assert sorted(listed) == sorted([one, two, three])
    fresh = await api.post(f"/v1/dead-letters/{one}/replay", status=201)
    assert (fresh["type"], fresh["state"]) == ("fail", "scheduled")
    assert (await api.get(f"/v1/jobs/{fresh['id']}"))["replay_of"] == one
    assert await api.refused("POST", f"/v1/dead-letters/{one}/replay") == (404, "job_not_found")
    response = await api.ask("DELETE", f"/v1/dead-letters/{two}")
    assert (response.status_code, response.content) == (204, b"")
    assert await api.refused("DELETE", f"/v1/dead-letters/{two}") == (404, "job_not_found")
    assert await api.post("/v1/dead-letters/replay", {"type": "fail"}) == {"count": 1}
    assert (await api.get("/v1/dead-letters"))["dead_letters"] == []
    # A cursor of one list is none of another.
    assert (await api.refused("GET", f"/v1/jobs?after={page['next']}"))[0] == 422


async def test_a_replay_whose_key_is_held_leaves_the_record(api: Caller, app: App) -> None:
    dead = await api.submit("fail", {"message": "x"}, key="k", key_window="active")
    await run_all(app)
    await api.submit("fail", {"message": "x"}, key="k", key_window="active")
    refused = await api.refused("POST", f"/v1/dead-letters/{dead}/replay")
    assert refused == (409, "duplicate_key")
    assert len((await api.get("/v1/dead-letters"))["dead_letters"]) == 1


async def test_an_event_makes_a_job_for_each_handler(api: Caller, app: App) -> None:
    @app.event("user.*").on
    def welcome(id: int) -> None: ...

    @app.event("user.created").on(queue="audit")
    def note(id: int) -> None: ...

    body = {"payload": {"id": 10**20}, "key": "k"}
    sent = await api.post("/v1/events/user.created", body, status=202)
    assert sorted(job["type"] for job in sent["jobs"]) == ["note", "welcome"]
    again = await api.post("/v1/events/user.created", body, status=202)
    assert [job["duplicate"] for job in again["jobs"]] == [True, True]
    refusing = {**body, "on_duplicate": "reject"}
    refused = await api.refused("POST", "/v1/events/user.created", refusing)
    assert refused == (409, "duplicate_key")
    nobody = await api.post("/v1/events/order.paid", status=202)
    assert nobody["jobs"] == []
    events = (await api.get("/v1/events", params={"name": "user.created"}))["events"]
    assert [event["id"] for event in events] == [again["id"], sent["id"]]
    assert events[0]["payload"] == {"id": 10**20}
    for name, payload in (("user.created", {"id": "x"}), ("user.*", {}), ("a..b", {})):
        status, _ = await api.refused("POST", f"/v1/events/{name}", {"payload": payload})
        assert status == 422
    assert app.jobs.count() == 2


async def test_crons_are_listed_paused_run_and_forgotten(api: Caller, app: App) -> None:
    @app.cron("0 9 * * 1-5", tz="Europe/Berlin")
    def report() -> None: ...

    (cron,) = (await api.get("/v1/crons"))["crons"]
    assert (cron["name"], cron["type"], cron["is_paused"]) == ("report", "report", False)
    assert len((await api.get("/v1/crons/report/next?count=3"))["ticks"]) == 3
    assert (await api.ask("POST", "/v1/crons/report/pause")).status_code == 204
    (cron,) = (await api.get("/v1/crons"))["crons"]
    assert cron["is_paused"] is True
    assert (await api.ask("POST", "/v1/crons/report/resume")).status_code == 204
    job = await api.post("/v1/crons/report/run", status=201)
    assert job["type"] == "report"
    assert (await api.ask("DELETE", "/v1/crons/report")).status_code == 204
    for method, path in (
        ("POST", "/v1/crons/none/pause"),
        ("POST", "/v1/crons/none/resume"),
        ("POST", "/v1/crons/none/run"),
        ("GET", "/v1/crons/none/next"),
        ("GET", "/v1/crons/none/runs"),
        ("DELETE", "/v1/crons/none"),
    ):
        assert await api.refused(method, path) == (404, "cron_not_found")


async def test_the_last_runs_of_a_cron_are_listed_with_their_states(api: Caller, app: App) -> None:
    @app.cron("0 9 * * 1-5", name="morning")
    def report() -> None: ...

    cron = app.session.crons["morning"]
    tick = datetime(2026, 3, 2, 9, tzinfo=UTC)
    app.store.run(app.store.queue.enqueue([cron.job(tick)]))
    await run_all(app)
    by_hand = await api.post("/v1/crons/morning/run", status=201)
    await api.submit("report")
    newest, ticked = (await api.get("/v1/crons/morning/runs"))["runs"]
    assert (newest["job_id"], newest["state"], newest["tick"]) == (
        by_hand["id"],
        "scheduled",
        None,
    )
    assert (ticked["state"], ticked["tick"]) == ("completed", "2026-03-02T09:00:00Z")
    assert ticked["started_at"] <= ticked["ended_at"]
    assert len((await api.get("/v1/crons/morning/runs?limit=1"))["runs"]) == 1
    assert (await api.get("/v1/jobs?tag=fencepost.cron:morning"))["jobs"][1]["id"] == ticked[
        "job_id"
    ]
    for limit in (0, 101):
        path = f"/v1/crons/morning/runs?limit={limit}"
        assert await api.refused("GET", path) == (422, "invalid_request")


async def test_what_is_paused_is_listed_with_who_paused_it(ways: Ways, app: App) -> None:
    @app.cron("@daily")
    def report() -> None: ...

    assert (await ways.all.get("/v1/pauses"))["pauses"] == []
    app.queues.pause("c")
    for path in ("queues/a", "queues/b", "types/work", "crons/report"):
        await ways.all.ask("POST", f"/v1/{path}/pause")
    await ways.all.post("/v1/queues/b/resume")
    app.queues.pause("b")  # by a program, of which the log knows nothing
    found = {(p["kind"], p["name"]): p for p in (await ways.all.get("/v1/pauses"))["pauses"]}
    assert {name: each["by"] for name, each in found.items()} == {
        ("queue", "a"): "all",
        ("queue", "b"): None,
        ("queue", "c"): None,
        ("type", "work"): "all",
        ("cron", "report"): "all",
    }
    assert found["queue", "a"]["at"] is not None
    own = (await ways.a.get("/v1/pauses"))["pauses"]
    assert [(each["kind"], each["name"]) for each in own] == [("queue", "a")]


async def test_a_flow_is_stored_whole_looked_at_and_steered(api: Caller, app: App) -> None:
    nodes = {
        "c": {"type": "fail", "payload": {"message": "x"}, "after": ["a", "b"]},
        "a": {"type": "add", "payload": {"a": 1}},
        "b": {"type": "add", "payload": {"a": 2}, "after": ["a"]},
    }
    flow = await api.post("/v1/flows", {"nodes": nodes}, status=201)
    assert list(flow["jobs"]) == ["a", "b", "c"]
    assert [job["state"] for job in flow["jobs"].values()] == ["scheduled", "pending", "pending"]
    await run_all(app)
    shown = await api.get(f"/v1/flows/{flow['id']}")
    assert {name: job["state"] for name, job in shown["jobs"].items()} == {
        "a": "completed",
        "b": "completed",
        "c": "failed",
    }
    assert await api.post(f"/v1/flows/{flow['id']}/retry") == {"count": 1}
    assert await api.post(f"/v1/flows/{flow['id']}/cancel") == {"count": 1}
    for method, path in (
        ("GET", f"/v1/flows/{NOBODY}"),
        ("POST", f"/v1/flows/{NOBODY}/cancel"),
        ("POST", f"/v1/flows/{NOBODY}/retry"),
    ):
        assert await api.refused(method, path) == (404, "flow_not_found")


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ({}, "dependency_none"),
        ({"a": {"type": "x", "after": ["a"]}}, "dependency_cycle"),
        ({"a": {"type": "x", "after": ["b"]}, "b": {"type": "x", "after": ["a"]}}, None),
        ({"a": {"type": "x", "after": ["nobody"]}}, "dependency_unknown"),
        ({"a": {"type": "add", "payload": {}}}, "invalid_payload"),
    ],
)
async def test_a_flow_that_could_never_run_stores_nothing(
    api: Caller, app: App, nodes: dict[str, object], code: str | None
) -> None:
    status, given = await api.refused("POST", "/v1/flows", {"nodes": nodes})
    assert status == 422
    assert given == code or code in (None, "dependency_none")
    assert app.jobs.count() == 0


async def test_health_is_told_to_anybody(api: Caller) -> None:
    assert await api.get("/health/live") == {"status": "live"}
    assert await api.get("/health/ready") == {"status": "ready"}


async def test_wrong_paths_and_methods_are_problems_too(api: Caller) -> None:
    assert await api.refused("GET", "/nowhere") == (404, "not_found")
    response = await api.ask("DELETE", "/v1/jobs")
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
    assert "POST" in response.headers["allow"]

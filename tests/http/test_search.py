"""Searching jobs over HTTP by what no index knows, in either order, with counts that stop."""

from __future__ import annotations

from typing import Any

import pytest
from tests.http.conftest import Caller
from tests.http.test_letters import die
from tests.http.test_scope import Ways, caller, linked
from tests.http.test_scope import ways as ways

from fencepost import App, EncryptionKey
from fencepost.actions.local import bulk, jobs, look
from fencepost.core.bounds import LOOK_FIRST
from fencepost.http import asgi
from fencepost.http.operations import jobs as operations


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read three jobs at once, and ten for an answer."""
    monkeypatch.setattr(look, "LOOK_PAGE", 3)
    for module in (look, jobs, operations):
        monkeypatch.setattr(module, "LOOK_MAX", 10)


async def found(api: Caller, **params: Any) -> list[str]:
    page = await api.get("/v1/jobs", params=params)
    return [job["id"] for job in page["jobs"]]


async def test_jobs_are_found_by_what_no_index_knows(api: Caller) -> None:
    mine = await api.submit(
        "add", {"a": 1, "b": 7}, priority="low", key="order-42", delay=60, queue="mail"
    )
    dead = await die(api, message="Disk is full")
    for params in (
        {"priority": "low"},
        {"priority": ["3", "0"]},
        {"key": "order-42"},
        {"key": "order-42", "type": "add"},
        {"where": "payload.b=7"},
        {"where": ["payload.b>6", "payload.a!=2"]},
        {"where": "payload.b=7", "state": "delayed", "queue": "mail"},
    ):
        assert await found(api, **params) == [mine], params
        count = await api.get("/v1/jobs/count", params=params)
        assert (count["count"], count["at_least"]) == (1, False)
        assert count["looked"] in ((None,) if "key" in params else (1, 2))
    for error in ("disk", "Disk is full", "permanent"):
        assert await found(api, error=error) == [dead]
    assert await found(api, error="disk", type="add") == []
    plain = await api.get("/v1/jobs")
    assert (plain["looked"], plain["unreadable"]) == (None, 0)


@pytest.mark.parametrize(
    "query",
    [
        "priority=5",
        "priority=urgent",
        "priority=",
        "key=",
        "key=%00",
        f"key={'x' * 257}",
        "error=",
        f"error={'x' * 201}",
        "where=",
        "where=tags.a=1",
        "where=payload",
        f"where=payload.a={'1' * 1000}",
        "&".join(["where=payload.a=1"] * 11),
        "order=random",
        "order=",
    ],
    ids=lambda query: query[:20],
)
async def test_conditions_that_make_no_sense_are_refused(api: Caller, query: str) -> None:
    assert (await api.refused("GET", f"/v1/jobs?{query}"))[0] == 422
    if not query.startswith("order"):
        assert (await api.refused("GET", f"/v1/jobs/count?{query}"))[0] == 422


async def test_a_search_says_how_far_it_looked_and_goes_on_there(api: Caller, small: None) -> None:
    ids = [await api.submit("add", {"a": n}) for n in range(25)]
    params: dict[str, Any] = {"where": "payload.a<3"}
    read, seen = [], []
    while True:
        page = await api.get("/v1/jobs", params=params)
        read.append(page["looked"])
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        params["after"] = page["next"]
    assert (read, seen) == ([10, 10, 5], ids[2::-1])
    count = await api.get("/v1/jobs/count", params={"where": "payload.a>20"})
    assert count == {"count": 4, "at_least": True, "looked": 10, "unreadable": 0}


async def test_large_jobs_are_read_a_few_at_once(
    api: Caller, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of payloads is in memory, and is decoded on the loop that answers heartbeats."""
    for n in range(40):
        await api.submit("fail", {"message": str(n) * 1000})
    asked: list[int] = []
    find = app.store.reader.find

    def spied(filter: Any, page: Any) -> Any:
        asked.append(page.limit)
        return find(filter, page)

    monkeypatch.setattr(look, "LOOK_BYTES", 10_000)
    monkeypatch.setattr(app.store.reader, "find", spied)
    assert (await api.get("/v1/jobs?where=payload.message=0"))["looked"] == 40
    assert asked[0] == LOOK_FIRST
    assert max(asked[1:]) <= 10


async def test_pages_of_a_look_leave_nothing_out(api: Caller, small: None) -> None:
    ids = [await api.submit("add", {"a": n % 2}) for n in range(12)]
    for order in ("newest", "oldest"):
        seen: list[str] = []
        params: dict[str, Any] = {"where": "payload.a=1", "limit": 2, "order": order}
        while True:
            page = await api.get("/v1/jobs", params=params)
            seen += [job["id"] for job in page["jobs"]]
            if page["next"] is None:
                break
            params["after"] = page["next"]
        assert seen == ids[1::2][:: 1 if order == "oldest" else -1]


async def test_the_oldest_come_first_if_they_are_asked_for(api: Caller) -> None:
    ids = [await api.submit("add", {"a": n}) for n in range(3)]
    assert await found(api, order="oldest", state="scheduled") == ids
    assert await found(api, order="newest") == ids[::-1]


async def test_counts_say_whether_there_may_be_more(api: Caller, small: None) -> None:
    for n in range(12):
        await api.submit("add", {"a": n}, tags={"half": str(n % 2)}, correlation_id="c")
    exact = {"at_least": False, "looked": None, "unreadable": 0}
    assert await api.get("/v1/jobs/count?type=add") == {"count": 12, **exact}
    assert await api.get("/v1/jobs/count?tag=half:1") == {"count": 6, **exact}
    more = {"count": 10, "at_least": True, "looked": None, "unreadable": 0}
    assert await api.get("/v1/jobs/count?correlation_id=c") == more
    since = {"created_after": "2000-01-01T00:00:00Z"}
    assert await api.get("/v1/jobs/count", params=since) == more


async def test_what_cannot_be_read_is_counted_and_does_not_match(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with App(url, keys=[EncryptionKey("k", b"n" * 32)]) as locked:

        @locked.task
        def greet(name: str) -> None: ...

        greet.submit("Ada")
        api = caller(locked, asgi(locked), "all", None)
        (job,) = (await api.get("/v1/jobs?where=payload.name=Ada"))["jobs"]
        assert job["preview"] == '{"name":"Ada"}'
        await api.client.aclose()
    with App(url) as app:
        api = caller(app, asgi(app), "other", None)
        for where in ("payload.name=Ada", "payload.name!=Ada"):
            page = await api.get("/v1/jobs", params={"where": where})
            assert (page["jobs"], page["looked"], page["unreadable"]) == ([], 1, 1)
        (found,) = (await api.get("/v1/jobs?where=result=null"))["jobs"]
        assert (found["id"], found.get("preview")) == (job["id"], None)
        await api.client.aclose()


async def test_a_found_job_shows_how_its_payload_begins(api: Caller) -> None:
    long = await api.submit("fail", {"message": "ä" * 200})
    short = await api.submit("add", {"a": 1})
    raw = {"type": "other", "payload_base64": "AP8="}
    binary = (await api.post("/v1/jobs", raw, status=201))["id"]
    previews = {job["id"]: job.get("preview") for job in (await api.get("/v1/jobs"))["jobs"]}
    assert previews == {long: '{"message":"' + "ä" * 108, short: '{"a":1}', binary: None}
    assert "preview" not in await api.get(f"/v1/jobs/{short}")


CONDITIONS: list[dict[str, Any]] = [
    {"key": "secret"},
    {"where": ["payload.to=a"]},
    {"error": "boom"},
    {"priorities": ["normal"]},
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
async def test_a_token_for_a_queue_reaches_only_its_own(
    ways: Ways, condition: dict[str, Any]
) -> None:
    """By no condition does it find, count or change a job of another queue."""
    mine, theirs = await die(ways.all, "a", "boom"), await die(ways.all, "b", "boom")
    for queue in ("a", "b"):
        await ways.all.submit(f"to-{queue}", {"to": "a"}, queue=queue, key="secret", delay=60)
    params = {
        "priority" if name == "priorities" else name: value for name, value in condition.items()
    }
    every = await found(ways.all, **params)
    own = await found(ways.a, **params)
    assert len(every) == 2 * len(own) > 0
    for job_id in own:
        assert (await ways.all.get(f"/v1/jobs/{job_id}"))["queue"] == "a"
    count = await ways.a.get("/v1/jobs/count", params=params)
    assert count["count"] == len(own)
    assert (await ways.a.refused("GET", "/v1/jobs?queue=b"))[0] == 403
    edit = {**condition, "edit": {"tags": {"seen": "1"}}}
    assert (await ways.a.post("/v1/jobs/edit", edit))["count"] == len(own)
    assert sorted(await found(ways.all, tag="seen:1")) == sorted(own)
    assert (await ways.a.refused("POST", "/v1/jobs/edit", {**edit, "queue": "b"}))[0] == 403
    for verb in ("retry", "cancel"):
        await ways.a.post(f"/v1/jobs/{verb}", condition)
    assert (await ways.all.get(f"/v1/jobs/{theirs}"))["state"] == "failed"
    assert mine != theirs


async def test_content_is_not_guessed_by_a_token_that_may_not_read(app: App) -> None:
    api = caller(app, asgi(app), "all", None)
    blind = caller(app, asgi(app), "blind", None)
    token = app.tokens.create("operator", roles=["operate"]).text
    blind.client.headers["authorization"] = f"Bearer {token}"
    await api.submit("add", {"a": 1})
    for verb in ("cancel", "retry"):
        for content in ({"where": ["payload.a=1"]}, {"error": "x"}):
            body = {**content, "dry_run": True}
            assert (await blind.refused("POST", f"/v1/jobs/{verb}", body))[0] == 403
    body = {"where": ["payload.a=1"], "edit": {"priority": 0}}
    assert (await blind.refused("POST", "/v1/jobs/edit", body))[0] == 403
    for each in (api, blind):
        await each.client.aclose()


async def test_a_search_does_not_tell_who_is_to_blame_out_of_reach(ways: Ways) -> None:
    _, first, second = await linked(ways, "b", "a")
    (claimed,) = await ways.all.claim(types=["first"])
    failed = {"id": first, "token": claimed["lease"]["token"], "category": "permanent"}
    await ways.all.post("/v1/leases/nack", {**failed, "message": "no"})
    guesses = [{"where": f"failure.failed_dependency={first}"}, {"error": first}]
    for guess in guesses:
        assert await found(ways.a, **guess) == []
    assert await found(ways.all, **guesses[0]) == [second]
    code = (await ways.a.get(f"/v1/jobs/{second}"))["failure"]["code"]
    assert await found(ways.a, error=code) == [second]


async def test_bulk_acts_by_what_no_index_knows_or_not_at_all(
    api: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await api.submit("add", {"a": n}) for n in range(6)]
    body = {"where": ["payload.a>2"], "type": "add"}
    assert (await api.post("/v1/jobs/cancel", {**body, "dry_run": True}))["count"] == 3
    refused = await api.refused("POST", "/v1/jobs/cancel", {**body, "expected": 1})
    assert refused == (409, "state_conflict")
    monkeypatch.setattr(bulk, "LOOK_ALL_MAX", 4)
    assert (await api.refused("POST", "/v1/jobs/cancel", body))[0] == 422
    monkeypatch.undo()
    assert (await api.get("/v1/jobs/count?state=cancelled"))["count"] == 0
    assert (await api.post("/v1/jobs/cancel", body))["count"] == 3
    assert sorted(await found(api, state="cancelled")) == sorted(ids[3:])
    again = {"where": ["payload.a=5"], "state": ["cancelled"]}
    assert (await api.post("/v1/jobs/retry", again))["count"] == 1

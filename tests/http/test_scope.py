"""Every route with a token that is bound to a queue: jobs of other queues do not exist for it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import httpx
import pytest
from tests.http.conftest import Caller

from fencepost import App
from fencepost.core.access.tokens import Role
from fencepost.http import asgi
from fencepost.http.request.route import Route
from fencepost.http.routes import ROUTES

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"
NO_LEASE = "5f0d5b1f2a77.0e3b7f9c6a014d2e9c556f0d5b1f2a77"
SECRET = "of-b-alone"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+")
"""What is refused for falling due too late names the instant at which it was."""
ROLES = [role for role in Role if role is not Role.ADMIN]


class Ways(NamedTuple):
    """The same application, asked by an operator of all queues and by tokens bound to some."""

    all: Caller
    a: Caller
    b: Caller


def caller(app: App, served: Any, name: str, queues: list[str] | None) -> Caller:
    token = app.tokens.create(name, roles=ROLES, queues=queues).text
    transport = httpx.ASGITransport(app=served, raise_app_exceptions=True)
    headers = {"authorization": f"Bearer {token}", "x-request-id": "same-for-all"}
    return Caller(
        httpx.AsyncClient(transport=transport, base_url="http://api.example", headers=headers)
    )


@pytest.fixture
async def ways(app: App) -> AsyncIterator[Ways]:
    served = asgi(app)
    made = Ways(
        caller(app, served, "all", None),
        caller(app, served, "a", ["a"]),
        caller(app, served, "b", ["b", "c"]),
    )
    yield made
    for each in made:
        await each.client.aclose()


async def foreign(api: Caller, state: str, **options: Any) -> tuple[str, str]:
    """Return id and lease token of a job of queue b in this state; all of it says whose it is."""
    fields = {"tags": {"x": SECRET}, "correlation_id": SECRET, **options}
    fields = {"queue": "b", "retry": {"max_attempts": 1}, **fields}
    if state == "delayed":
        fields["delay"] = 3600
    job_id = await api.submit("work", {"x": SECRET}, **fields)
    if state in ("scheduled", "delayed"):
        return job_id, NO_LEASE
    if state == "cancelled":
        await api.post(f"/v1/jobs/{job_id}/cancel")
        return job_id, NO_LEASE
    (claimed,) = await api.claim(
        queues=[fields["queue"]], types=["work"], worker=f"{SECRET} {state}"
    )
    lease: str = claimed["lease"]["token"]
    if state == "completed":
        await api.post("/v1/leases/ack", {"id": job_id, "token": lease, "result": SECRET})
    elif state == "failed":
        failure = {"category": "permanent", "message": SECRET, "traceback": SECRET}
        await api.post("/v1/leases/nack", {"id": job_id, "token": lease, **failure})
    return job_id, lease


STATES = ["scheduled", "delayed", "running", "completed", "failed", "cancelled"]


async def answer(api: Caller, method: str, path: str, body: Any = None) -> Any:
    """Return all that comes back."""
    response = await api.ask(method, path, body)
    return response.status_code, sorted(response.headers.items()), response.text


# Every route that takes the id of a job, and how one is given to it.

Ask = Callable[[str, str], tuple[str, Any]]
"""From the id and the lease token of a job to a path and a body."""


def in_path(route: Route) -> list[Ask]:
    bodies: dict[str, Any] = {
        "/v1/jobs/{id}/retry": {"delay": 1},
        "/v1/jobs/{id}": {"priority": 0} if route.method == "PATCH" else None,
    }
    suffix = "?timeout=0" if route.path.endswith("/wait") else ""
    body = bodies.get(route.path)
    return [lambda job_id, _: (route.path.format(id=job_id) + suffix, body)]


def under_lease(route: Route) -> list[Ask]:
    more: dict[str, Any] = {"fraction": 0.5} if route.path.endswith("progress") else {}
    own = {"id": NOBODY, "token": NO_LEASE, **more}
    return [
        lambda job_id, lease: (route.path, {"id": job_id, "token": lease, **more}),
        lambda job_id, _: (route.path, {"id": job_id, "token": NO_LEASE, **more}),
        lambda job_id, lease: (
            route.path,
            {"items": [own, {"id": job_id, "token": lease, **more}, own]},
        ),
        lambda job_id, lease: (route.path, {"id": job_id.upper(), "token": lease, **more}),
    ]


def unreadable(route: Route) -> list[Ask]:
    """A worker that cannot read a payload has the job's past looked at."""
    more = {"category": "unreadable", "message": "what is this?"}
    return [
        *under_lease(route),
        lambda job_id, lease: (route.path, {"id": job_id, "token": lease, **more}),
        lambda job_id, lease: (route.path, {"items": [{"id": job_id, "token": lease, **more}]}),
    ]


def job_behind(job_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "work", "queue": "a", "after": [job_id], **more}


def behind(route: Route) -> list[Ask]:
    late = {"run_at": "2999-01-01T00:00:00Z"}
    return [
        lambda job_id, _: (route.path, job_behind(job_id)),
        lambda job_id, _: (route.path, job_behind(job_id.upper())),
        lambda job_id, _: (route.path, job_behind(NOBODY, after=[job_id, NOBODY])),
        lambda job_id, _: (route.path, job_behind(job_id, accept_failures=True)),
        lambda job_id, _: (route.path, {"type": "work", "queue": "a", "after_any": [job_id]}),
        lambda job_id, _: (route.path, job_behind(job_id, **late)),
        lambda job_id, _: (route.path, job_behind(job_id, key="free")),
    ]


def batch_behind(route: Route) -> list[Ask]:
    return [
        lambda job_id, _: (route.path, {"jobs": [job_behind(job_id)]}),
        lambda job_id, _: (
            route.path,
            {"jobs": [job_behind(NOBODY), job_behind(job_id)], "atomic": True},
        ),
        lambda job_id, _: (
            route.path,
            {"jobs": [job_behind(job_id), job_behind(NOBODY)], "atomic": True},
        ),
        lambda job_id, _: (route.path, {"jobs": [job_behind(job_id), job_behind(NOBODY)]}),
    ]


def node_behind(route: Route) -> list[Ask]:
    first = {"type": "work", "queue": "a"}
    return [
        lambda job_id, _: (route.path, {"nodes": {"x": job_behind(job_id)}}),
        lambda job_id, _: (route.path, {"nodes": {"x": first, "y": job_behind(job_id)}}),
    ]


BY_ID: dict[str, Callable[[Route], list[Ask]]] = {
    "POST /v1/jobs": behind,
    "POST /v1/jobs/batch": batch_behind,
    "POST /v1/flows": node_behind,
    "POST /v1/leases/heartbeat": under_lease,
    "POST /v1/leases/ack": under_lease,
    "POST /v1/leases/nack": unreadable,
    "POST /v1/leases/release": under_lease,
    "POST /v1/leases/checkpoint": under_lease,
    "POST /v1/leases/progress": under_lease,
}
LISTS = {
    "GET /v1/jobs",
    "GET /v1/jobs/count",
    "GET /v1/queues",
    "GET /v1/dead-letters",
    "GET /v1/dead-letters/groups",
    "GET /v1/attention",
    "GET /v1/completions",
    "GET /v1/leases",
    "POST /v1/dead-letters/discard",
    "GET /v1/flows",
    "GET /v1/pauses",
    "POST /v1/dead-letters/replay",
    "GET /v1/replays",
    "POST /v1/replays",
    "GET /v1/series",
    "GET /v1/stream",
    "GET /v1/scale/{queue}",
    "POST /v1/jobs/cancel",
    "POST /v1/jobs/retry",
    "POST /v1/jobs/edit",
    "POST /v1/claims",
    "POST /v1/events/{name}",
}
"""Routes that are given no id; tests of their own are below, in ``test_flows`` or in
``test_stream``."""
QUEUES = {
    "POST /v1/queues/{name}/pause",
    "POST /v1/queues/{name}/resume",
    "PUT /v1/queues/{name}/limit",
}
"""Routes that name a queue: 403, whether there is one or not."""


OWN = {"GET /v1/me", "DELETE /v1/session"}
"""Routes about nothing but the token itself."""


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def asks(route: Route) -> list[Ask]:
    return BY_ID[name_of(route)](route) if name_of(route) in BY_ID else in_path(route)


NAMING = [route for route in ROUTES if "{id}" in route.path or name_of(route) in BY_ID]


def test_every_route_is_in_the_table() -> None:
    """A new one has to say how it treats jobs of queues that a token is not for."""
    known = {name_of(route) for route in NAMING} | LISTS | QUEUES | OWN
    others = {name_of(r) for r in ROUTES if not r.is_store_wide and r.roles} - known
    assert not others


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("route", NAMING, ids=name_of)
async def test_an_id_out_of_reach_is_an_id_that_nobody_has(
    ways: Ways, route: Route, state: str
) -> None:
    """Byte for byte, and nothing happens to the job."""
    if "/flows/" in route.path:
        body = {"nodes": {"x": {"type": "work", "queue": "b"}}}
        job_id, lease = (await ways.all.post("/v1/flows", body, status=201))["id"], NO_LEASE
        looked = f"/v1/flows/{job_id}"
    else:
        job_id, lease = await foreign(ways.all, state)
        looked = f"/v1/jobs/{job_id}"
    before = await ways.all.get(looked)
    for ask in asks(route):
        there = await answer(ways.a, route.method, *ask(job_id, lease))
        nowhere = await answer(ways.a, route.method, *ask(NOBODY, lease))
        assert there[0] == nowhere[0]
        for part in (1, 2):
            ours = str(there[part]).replace(job_id, NOBODY).replace(job_id.upper(), NOBODY.upper())
            assert INSTANT.sub("", ours) == INSTANT.sub("", str(nowhere[part]))
        assert SECRET not in there[2]
    assert await ways.all.get(looked) == before


@pytest.mark.parametrize("state", STATES)
async def test_a_key_that_is_held_out_of_reach_is_a_bare_refusal(ways: Ways, state: str) -> None:
    """C15: whoever may know of the holder is given it; others hear that it is held, and no more."""
    job_id, _ = await foreign(ways.all, state, key="k")
    wanted = {"type": "work", "queue": "a", "key": "k"}
    bare = {
        "type": "urn:fencepost:problem:duplicate_key",
        "title": "Conflict with the present state",
        "status": 409,
        "code": "duplicate_key",
        "detail": "key 'k' of type 'work' is held",
        "request_id": "same-for-all",
    }
    for more in ({}, {"on_duplicate": "reject"}, {"tags": {"t": "u"}}, {"concurrency_key": "c"}):
        each = {**wanted, **more}
        refused = await ways.a.ask("POST", "/v1/jobs", each)
        assert refused.json() == bare
        atomic = {"jobs": [{"type": "new", "queue": "a", "key": "k2"}, each], "atomic": True}
        assert (await ways.a.ask("POST", "/v1/jobs/batch", atomic)).json() == bare
        (reply,) = (await ways.a.post("/v1/jobs/batch", {"jobs": [each]}, status=201))["jobs"]
        assert reply == {"code": "duplicate_key", "detail": bare["detail"]}
        nodes = {"x": each, "y": {"type": "work", "queue": "a", "after": ["x"]}}
        assert (await ways.a.ask("POST", "/v1/flows", {"nodes": nodes})).json() == bare
    assert (await ways.a.get("/v1/jobs"))["jobs"] == []
    existing = await ways.b.post("/v1/jobs", {**wanted, "queue": "b"})
    assert (existing["id"], existing["duplicate"]) == (job_id, True)
    rejected = await ways.b.ask(
        "POST", "/v1/jobs", {**wanted, "queue": "c", "on_duplicate": "reject"}
    )
    assert rejected.json()["existing"] == job_id


async def test_events_retries_and_replays_say_nothing_of_who_holds_a_key(
    app: App, ways: Ways
) -> None:
    @app.event("user.created").on(queue="a", name="welcome")
    def welcome() -> None: ...

    job_id = await ways.all.submit("welcome", queue="b", key="k", key_window="active")
    event = {"key": "k"}
    refused = await ways.a.ask("POST", "/v1/events/user.created", event)
    assert refused.json()["code"] == "duplicate_key"
    assert job_id not in refused.text
    await ways.all.post(f"/v1/jobs/{job_id}/cancel")
    # A job of ours that has failed, and whose key another queue has taken since.
    keyed = {"key": "again", "key_window": "active"}
    mine, _ = await foreign(ways.all, "failed", queue="a", **keyed)
    theirs = await ways.all.submit("work", queue="b", **keyed)
    for path in (f"/v1/jobs/{mine}/retry", f"/v1/dead-letters/{mine}/replay"):
        refused = await ways.a.ask("POST", path)
        assert (refused.status_code, refused.json()["code"]) == (409, "duplicate_key")
        assert theirs not in refused.text
        assert theirs in (await ways.all.ask("POST", path)).text


async def test_where_a_type_or_an_event_goes_is_not_told_out_of_reach(app: App, ways: Ways) -> None:
    @app.event("user.created").on(queue="of-b-alone")
    def welcome() -> None: ...

    app.task(name="letter", queue="of-b-alone")(lambda: None)
    for path, body in (("/v1/events/user.created", {}), ("/v1/jobs", {"type": "letter"})):
        refused = await ways.a.ask("POST", path, body)
        assert refused.status_code == 403
        assert SECRET not in refused.text


async def everything(api: Caller, mine: str, flow: str) -> list[Any]:
    """Return all that a token can list and count."""
    asked = [
        "/v1/jobs",
        "/v1/jobs?limit=1",
        "/v1/jobs?tag=x:of-b-alone",
        f"/v1/jobs?flow={flow}",
        "/v1/jobs/count",
        "/v1/jobs/count?type=work",
        "/v1/queues",
        "/v1/dead-letters",
        "/v1/dead-letters?limit=1",
        f"/v1/flows/{flow}",
        f"/v1/jobs/{mine}",
        f"/v1/jobs/{mine}/why",
        f"/v1/jobs/{mine}/history",
        "/v1/scale/a",
    ]
    cancelled = [{"type": "work", "dry_run": True}, {"type": "none"}, {"flow": NOBODY}]
    claim = {"worker": "w", "types": ["work"], "queues": ["a"]}
    return [
        *[await answer(api, "GET", path) for path in asked],
        *[await answer(api, "POST", "/v1/jobs/cancel", body) for body in cancelled],
        await answer(api, "POST", "/v1/claims", claim),
    ]


async def test_lists_and_counts_are_as_if_there_was_nothing_else(ways: Ways) -> None:
    """Before and after another queue has jobs in every state: the same, byte for byte."""
    nodes = {"x": {"type": "mine", "queue": "a", "delay": 3600}}
    flow = (await ways.all.post("/v1/flows", {"nodes": nodes}, status=201))["id"]
    mine, _ = await foreign(ways.all, "failed", queue="a", tags={}, correlation_id="mine")
    await everything(ways.a, mine, flow)  # its worker is known from now on
    before = await everything(ways.a, mine, flow)
    for state in reversed(STATES):  # those that are claimed first
        await foreign(ways.all, state)
    await ways.all.submit("work", queue="b", delay="300ms")  # falls due soon: nobody's business
    assert await everything(ways.a, mine, flow) == before


async def test_dead_letters_of_a_queue_are_read_page_by_page(ways: Ways) -> None:
    """S3-24: a page is full, and says that more follow only if more of the queue do."""
    mine = []
    for queue in "babbab":
        dead, _ = await foreign(ways.all, "failed", queue=queue)
        mine += [dead] if queue == "a" else []
    first = await ways.a.get("/v1/dead-letters?limit=1")
    assert [each["job_id"] for each in first["dead_letters"]] == mine[1:]
    second = await ways.a.get(f"/v1/dead-letters?limit=1&after={first['next']}")
    assert [each["job_id"] for each in second["dead_letters"]] == mine[:1]
    assert second["next"] is None


async def linked(ways: Ways, first: str, second: str) -> tuple[str, str, str]:
    """Return a flow over two queues, which only somebody with a right to both can submit."""
    nodes = {
        "first": {"type": "first", "queue": first, "retry": {"max_attempts": 1}},
        "second": {"type": "second", "queue": second, "after": ["first"]},
    }
    for each in (ways.a, ways.b):
        assert await each.refused("POST", "/v1/flows", {"nodes": nodes}) == (403, "forbidden")
    made = await ways.all.post("/v1/flows", {"nodes": nodes}, status=201)
    return made["id"], made["jobs"]["first"]["id"], made["jobs"]["second"]["id"]


async def test_what_is_cancelled_takes_along_what_waits_and_tells_nothing_of_it(
    ways: Ways,
) -> None:
    """It could never run: as if the job had failed. No count or name tells of it."""
    flow, first, second = await linked(ways, "a", "b")
    refused = await ways.b.refused("POST", f"/v1/jobs/{first}/cancel")
    assert refused == (404, "job_not_found")
    cancelled = await ways.a.ask("POST", f"/v1/jobs/{first}/cancel")
    assert second not in cancelled.text
    assert (await ways.all.get(f"/v1/jobs/{second}"))["state"] == "cancelled"
    _, other, follower = await linked(ways, "a", "b")
    assert await ways.a.post("/v1/jobs/cancel", {"type": "first"}) == {"count": 1, "dry_run": False}
    assert (await ways.all.get(f"/v1/jobs/{follower}"))["state"] == "cancelled"
    flow, other, follower = await linked(ways, "a", "b")
    assert await ways.a.post(f"/v1/flows/{flow}/cancel") == {"count": 1}
    assert await ways.a.post(f"/v1/flows/{flow}/retry") == {"count": 1}
    assert (await ways.all.get(f"/v1/jobs/{other}"))["state"] == "scheduled"
    # The other way round, nothing is left to cancel but what waits.
    flow, other, follower = await linked(ways, "b", "a")
    assert await ways.a.post(f"/v1/flows/{flow}/cancel") == {"count": 1}
    assert (await ways.all.get(f"/v1/jobs/{other}"))["state"] == "scheduled"


async def test_a_flow_over_queues_is_seen_as_far_as_the_token_reaches(ways: Ways) -> None:
    flow, first, second = await linked(ways, "b", "a")
    seen = await ways.a.get(f"/v1/flows/{flow}")
    assert [each["id"] for each in seen["jobs"].values()] == [second]
    waiting = await ways.a.ask("GET", f"/v1/jobs/{second}/why")
    assert first not in waiting.text
    assert "first" not in waiting.text
    assert first in (await ways.all.ask("GET", f"/v1/jobs/{second}/why")).text
    (claimed,) = await ways.all.claim(types=["first"])
    lease = claimed["lease"]["token"]
    await ways.all.post("/v1/leases/ack", {"id": first, "token": lease, "result": SECRET})
    # Its worker is given what it waited for within reach; whoever may know all gets all.
    (claimed,) = await ways.a.claim(types=["second"])
    assert claimed["dependencies"] == []
    body = {"id": second, "token": claimed["lease"]["token"]}
    await ways.a.post("/v1/leases/release", body)
    (claimed,) = await ways.all.claim(types=["second"])
    assert [each["id"] for each in claimed["dependencies"]] == [first]


async def test_who_is_to_blame_is_not_told_out_of_reach(ways: Ways) -> None:
    flow, first, second = await linked(ways, "b", "a")
    (claimed,) = await ways.all.claim(types=["first"])
    failed = {"id": first, "token": claimed["lease"]["token"], "category": "permanent"}
    await ways.all.post("/v1/leases/nack", {**failed, "message": SECRET})
    paths = [
        ("GET", f"/v1/jobs/{second}"),
        ("GET", f"/v1/jobs/{second}/wait?timeout=0"),
        ("GET", f"/v1/jobs/{second}/why"),
        ("GET", f"/v1/jobs/{second}/attempts"),
        ("GET", f"/v1/jobs/{second}/history"),
        ("GET", f"/v1/flows/{flow}"),
        ("GET", "/v1/jobs"),
        ("GET", "/v1/dead-letters"),
        ("POST", f"/v1/jobs/{second}/retry"),
        ("POST", f"/v1/dead-letters/{second}/replay"),
        ("DELETE", f"/v1/dead-letters/{second}"),
    ]
    for method, path in paths:
        told = await ways.a.ask(method, path)
        assert first not in told.text, path
        assert SECRET not in told.text, path
    seen = await ways.a.get(f"/v1/jobs/{second}")
    assert seen["failure"]["message"] == "a job that it waited for did not complete"
    assert (await ways.all.get(f"/v1/jobs/{second}"))["failure"]["failed_dependency"] == first


async def test_counts_of_all_queues_explain_nothing_to_a_token_for_one(ways: Ways) -> None:
    """The limit of the app and a concurrency key count jobs of every queue."""
    await ways.all.ask("PUT", "/v1/limit", {"max_running": 1})
    await foreign(ways.all, "running")
    mine = await ways.all.submit("work", queue="a")
    told = await ways.a.get(f"/v1/jobs/{mine}/why")
    reasons = told["reasons"]
    assert {check["code"]: check["note"] for check in told["checks"]}["app_limit"] == ""
    (limited,) = [each for each in reasons if each["code"] == "app_limit"]
    assert not any(character.isdigit() for character in limited["text"])
    await ways.all.ask("PUT", "/v1/limit", {"max_running": None})
    await ways.all.submit("keyed", queue="b", concurrency_key="c")
    held = await ways.a.submit("keyed", queue="a", concurrency_key="c")
    told = await ways.a.get(f"/v1/jobs/{held}/why")
    (reason,) = told["reasons"]
    first = told["checks"][0]
    assert (first["code"], first["is_met"], first["note"]) == ("key", False, "")
    assert reason["code"] == "pending_key"
    assert not any(character.isdigit() for character in reason["text"])


async def test_what_workers_of_other_queues_serve_is_not_named(ways: Ways) -> None:
    claim = {"worker": "w", "types": ["wrok"], "queues": ["bravo"]}
    await ways.all.post("/v1/claims", claim)
    mine = await ways.all.submit("work", queue="a")
    known = (await ways.all.ask("GET", f"/v1/jobs/{mine}/why")).text
    assert "wrok" in known
    assert "bravo" in known
    (reason,) = (await ways.a.get(f"/v1/jobs/{mine}/why"))["reasons"]
    assert reason["code"] == "no_worker"
    assert "wrok" not in reason["text"]
    assert "bravo" not in reason["text"]

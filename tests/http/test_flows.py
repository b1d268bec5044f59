"""The list of flows: counted, page by page, and within the queues of the token."""

from __future__ import annotations

from typing import Any

from tests.http.conftest import Caller
from tests.http.test_scope import Ways
from tests.http.test_scope import ways as ways

from fencepost.clock import as_uuid7


async def submit(api: Caller, **queues: str) -> str:
    """Submit a flow with a job in each of these queues, by node; each waits for the one before."""
    nodes: dict[str, Any] = {}
    last: str | None = None
    for node, queue in queues.items():
        nodes[node] = {"type": node, "queue": queue, "payload": {}, "correlation_id": "nightly"}
        if last is not None:
            nodes[node]["after"] = [last]
        last = node
    reply = await api.post("/v1/flows", {"nodes": nodes}, status=201)
    flow_id: str = reply["id"]
    return flow_id


async def test_flows_are_listed_newest_first_with_their_counts(api: Caller) -> None:
    flows = [await submit(api, first="a", then="a") for _ in range(3)]
    reply = await api.get("/v1/flows?limit=2")
    newest = reply["flows"][0]
    assert [each["id"] for each in reply["flows"]] == sorted(flows, reverse=True)[:2]
    assert newest == {
        "id": max(flows),
        "correlation_id": "nightly",
        "type": "first",
        "counts": {"pending": 1, "scheduled": 1},
        "created_at": newest["created_at"],
        "started_at": None,
        "ended_at": None,
        "is_live": True,
        "is_complete": True,
    }
    rest = await api.get(f"/v1/flows?limit=2&after={reply['next']}")
    assert [each["id"] for each in rest["flows"]] == [min(flows)]
    assert rest["next"] is None
    assert (await api.get("/v1/flows?kind=failed"))["flows"] == []
    assert len((await api.get("/v1/flows?kind=live"))["flows"]) == 3


async def test_a_cursor_or_a_kind_that_nobody_made_is_refused(api: Caller) -> None:
    assert await api.refused("GET", "/v1/flows?kind=odd") == (422, "invalid_request")
    assert await api.refused("GET", "/v1/flows?limit=1001") == (422, "invalid_request")
    for cursor in ("x", "ajE6MTI", "w1:abc", "dzE6"):
        assert (await api.refused("GET", f"/v1/flows?after={cursor}"))[0] == 422, cursor


async def test_a_token_for_a_queue_counts_its_own_jobs_alone(ways: Ways) -> None:
    mixed = await submit(ways.all, mine="a", theirs="b")
    foreign = await submit(ways.all, theirs="b")
    (seen,) = (await ways.a.get("/v1/flows"))["flows"]
    assert (seen["id"], seen["type"], seen["counts"]) == (mixed, "mine", {"scheduled": 1})
    both = (await ways.b.get("/v1/flows"))["flows"]
    assert {each["id"] for each in both} == {mixed, foreign}
    assert {each["type"] for each in both} == {"theirs"}


def test_ids_that_begin_with_the_time_are_in_its_order() -> None:
    ids = [as_uuid7(bytes([255 - at] * 16), at * 1_000) for at in range(3)]
    assert ids == sorted(ids)
    assert all(each[6] >> 4 == 7 and each[8] >> 6 == 2 for each in ids)
    assert as_uuid7(bytes(16), -5)[:6] == bytes(6)

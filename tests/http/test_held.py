"""What workers hold now, and the names that a filter completes."""

from __future__ import annotations

from tests.http.conftest import Caller
from tests.http.test_scope import Ways
from tests.http.test_scope import ways as ways


async def test_running_jobs_are_listed_with_their_leases(api: Caller) -> None:
    for queue in ("a", "a", "b"):
        await api.submit("work", queue=queue)
    first = await api.claim(queues=["a"], worker="w1", lease_ttl="60s", limit=2)
    (other,) = await api.claim(queues=["b"], worker="w2", lease_ttl="10s")
    reply = await api.get("/v1/leases")
    assert reply["is_complete"] is True
    soonest = reply["leases"][0]
    assert soonest == {
        "job_id": other["id"],
        "type": "work",
        "queue": "b",
        "attempt": 1,
        "worker": "w2",
        "fence": other["lease"]["version"],
        "started_at": soonest["started_at"],
        "expires_at": other["lease"]["expires_at"],
        "is_expired": False,
    }
    held = (await api.get("/v1/leases?worker=w1"))["leases"]
    assert {each["job_id"] for each in held} == {job["id"] for job in first}
    assert len((await api.get("/v1/leases?limit=1"))["leases"]) == 1
    assert (await api.get("/v1/leases?queue=none"))["leases"] == []
    await api.post("/v1/leases/ack", {"id": other["id"], "token": other["lease"]["token"]})
    assert len((await api.get("/v1/leases"))["leases"]) == 2


async def test_names_are_completed(api: Caller) -> None:
    for queue, type_ in (("mail", "send"), ("bulk-mail", "resend"), ("Other", "x")):
        await api.submit(type_, queue=queue)
    tags = {"tenant": "7", "the:tenant": "8"}
    await api.submit("send", queue="mail", tags=tags, correlation_id="order-1", key="once")
    await api.claim(worker="w-7")

    async def values(query: str) -> list[str]:
        found: list[str] = (await api.get(f"/v1/completions?{query}"))["values"]
        return found

    assert await values("field=queue&prefix=MA") == ["mail", "bulk-mail"]
    assert await values("field=queue&prefix=o") == ["Other"]
    assert await values("field=type&prefix=send") == ["send", "resend"]
    assert await values("field=type&limit=1") == ["resend"]
    assert await values("field=worker&prefix=w") == ["w-7"]
    assert await values("field=queue&prefix=none") == []
    assert await values("field=tag&prefix=tenant") == ["tenant:7", "the%3Atenant:8"]
    assert await values("field=correlation") == ["order-1"]
    assert await values("field=key&prefix=once") == ["once"]
    assert await values("field=flow") == await values("field=error") == []
    assert await api.refused("GET", "/v1/completions?field=payload") == (422, "invalid_request")
    assert await api.refused("GET", "/v1/completions") == (422, "invalid_request")


async def test_a_token_for_a_queue_learns_of_no_other(ways: Ways) -> None:
    await ways.all.submit("secret", queue="b", tags={"of": "b"})
    await ways.all.submit("mine", queue="a", tags={"of": "a"})
    await ways.all.claim(queues=["a", "b"], worker="theirs")
    assert [each["type"] for each in (await ways.a.get("/v1/leases"))["leases"]] == ["mine"]
    known = {"queue": ["a"], "type": ["mine"], "worker": [], "tag": ["of:a"], "error": []}
    for field, names in known.items():
        assert (await ways.a.get(f"/v1/completions?field={field}"))["values"] == names
    refused = await ways.a.refused("GET", "/v1/leases?queue=b")
    assert refused == (403, "forbidden")

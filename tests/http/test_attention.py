"""What needs somebody: the doctor, the rules of attention, and dead letters in groups."""

from __future__ import annotations

from typing import Any

import httpx
from tests.http.clocked import app as app
from tests.http.conftest import Caller

from fencepost import App
from fencepost.core.bounds import PAUSED_LONG, WORKER_QUIET
from fencepost.http import asgi
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.testing.clock import FakeClock

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/mail.py", line {line}, in deliver
    connect()
  File "/usr/lib/python3.12/smtplib.py", line 312, in connect
    raise SMTPServerDisconnected
smtplib.SMTPServerDisconnected: {message}
"""


async def die(
    api: Caller, type: str = "mail", queue: str = "mail", *, line: int = 41, message: str = "gone"
) -> str:
    """Return the id of a job that has just died, as a worker reports it."""
    job_id = await api.submit(type, queue=queue, retry={"max_attempts": 1})
    (claimed,) = await api.claim(types=[type], queues=[queue])
    failure = {
        "category": "permanent",
        "message": message,
        "exception": "smtplib.SMTPServerDisconnected",
        "traceback": TRACEBACK.format(line=line, message=message),
    }
    await api.post("/v1/leases/nack", {"id": job_id, "token": claimed["lease"]["token"], **failure})
    return job_id


async def items(api: Caller) -> dict[str, Any]:
    """Return the items by code, without what the doctor says of a store in memory."""
    found = (await api.get("/v1/attention"))["items"]
    return {item["code"]: item for item in found if item["code"] != "doctor"}


def worker(app: App, id: str, *, queues: list[str], types: tuple[str, ...]) -> None:
    info = WorkerInfo(
        id=id,
        host="web-1",
        pid=1,
        queues=dict.fromkeys(queues, 1),
        types=types,
        concurrency=1,
        started_at=app.session.clock.now(),
    )
    app.session.store.run(app.session.store.cluster.announce(info))


async def test_a_quiet_store_needs_nobody(api: Caller) -> None:
    assert await items(api) == {}


async def test_the_doctor_says_over_http_what_the_command_says(api: Caller) -> None:
    found = (await api.get("/v1/doctor"))["findings"]
    assert {"level": "note", "code": "workers"}.items() <= found[-1].items()


async def test_jobs_that_nobody_takes_need_somebody_since_the_oldest_was_due(
    app: App, api: Caller, clock: FakeClock
) -> None:
    await api.submit("mail", queue="mail")
    since = clock.now()
    clock.advance(5)
    await api.submit("mail", queue="mail")
    item = (await items(api))["no_worker"]
    assert (item["level"], item["count"], item["target"]) == (
        "now",
        2,
        {"kind": "queue", "name": "mail"},
    )
    assert item["since"] == since.isoformat().replace("+00:00", "Z")
    worker(app, "w", queues=["mail"], types=("mail",))
    assert "no_worker" not in await items(api)


async def test_a_queue_that_stays_paused_is_told_with_who_did_it(
    api: Caller, clock: FakeClock
) -> None:
    await api.submit("mail", queue="mail")
    await api.post("/v1/queues/mail/pause")
    assert await items(api) == {}, "it has not been long, and needs no worker"
    clock.advance(PAUSED_LONG)
    item = (await items(api))["paused"]
    assert (item["level"], item["count"]) == ("soon", 1)
    assert "by 'local'" in item["text"]
    assert item["since"] is not None
    await api.post("/v1/queues/mail/resume")
    assert "paused" not in await items(api)


async def test_a_worker_that_is_silent_is_named(app: App, api: Caller, clock: FakeClock) -> None:
    worker(app, "w-7", queues=["mail"], types=("mail",))
    clock.advance(WORKER_QUIET)
    assert "worker_silent" not in await items(api)
    clock.advance(1)
    assert (await items(api))["worker_silent"]["target"] == {"kind": "worker", "name": "w-7"}


async def test_leases_that_ended_are_counted_until_they_are_recovered(
    app: App, api: Caller, clock: FakeClock
) -> None:
    for _ in range(2):
        await api.submit("mail", queue="mail")
    await api.claim(types=["mail"], lease_ttl="10s")
    assert "leases_expired" not in await items(api)
    clock.advance(3600)
    assert (await items(api))["leases_expired"]["count"] == 2
    app.session.store.run(app.session.store.upkeep.recover(10))
    clock.advance(3600)
    assert "leases_expired" not in await items(api)


async def test_dead_letters_are_grouped_by_what_they_died_of(api: Caller, clock: FakeClock) -> None:
    """The line changes with every release, and the message with every job."""
    first = await die(api, line=40, message="a@b.c")
    clock.advance(7200)
    second = await die(api, line=41, message="d@e.f")
    other = await die(api, "report", "bulk")
    reply = await api.get("/v1/dead-letters/groups")
    assert reply["is_complete"] is True
    groups = {group["type"]: group for group in reply["groups"]}
    mail = groups["mail"]
    assert (mail["count"], mail["sample"], mail["queues"]) == (2, [second, first], {"mail": 2})
    assert (mail["exception"], mail["frame"], mail["message"]) == (
        "smtplib.SMTPServerDisconnected",
        "srv/shop/mail.py:41 in deliver",
        "d@e.f",
    )
    assert mail["trend"] == [0] * 21 + [1, 0, 1]
    assert groups["report"]["sample"] == [other]
    for query, types in (
        ("type=mail", ["mail"]),
        ("queue=bulk", ["report"]),
        (f"since={mail['last_at']}&type=mail", ["mail"]),
        (f"until={mail['first_at']}", []),
    ):
        found = (await api.get(f"/v1/dead-letters/groups?{query}"))["groups"]
        assert [group["type"] for group in found] == types, query


async def test_a_group_that_rises_needs_somebody(api: Caller, clock: FakeClock) -> None:
    for _ in range(4):
        await die(api)
    assert "dead_letters_rising" not in await items(api), "so few are not said to rise"
    await die(api)
    clock.advance(10)
    item = (await items(api))["dead_letters_rising"]
    (group,) = (await api.get("/v1/dead-letters/groups"))["groups"]
    assert (item["count"], item["target"]) == (5, {"kind": "group", "name": group["id"]})
    assert group["is_rising"]
    clock.advance(3600)
    assert "dead_letters_rising" not in await items(api)


async def test_a_token_for_a_queue_sees_what_concerns_it(app: App, clock: FakeClock) -> None:
    """Nothing of others, not even a number."""
    served = asgi(app)
    tokens = {
        queue: app.tokens.create(queue, roles=["read", "submit", "work"], queues=[queue]).text
        for queue in ("a", "b")
    }
    transport = httpx.ASGITransport(app=served, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://api.example") as client:
        api = Caller(client)

        async def seen() -> list[Any]:
            client.headers["authorization"] = f"Bearer {tokens['a']}"
            clock.advance(100)
            replies = [await api.get("/v1/attention"), await api.get("/v1/dead-letters/groups")]
            return [{**reply, "at": None} for reply in replies]

        before = await seen()
        client.headers["authorization"] = f"Bearer {tokens['b']}"
        for _ in range(6):
            await die(api, queue="b")
        await api.submit("mail", queue="b")
        clock.advance(100)  # the worker is not listed any more
        assert len((await api.get("/v1/attention"))["items"]) == 2
        assert await seen() == before
        refused = await api.refused("GET", "/v1/dead-letters/groups?queue=b")
        assert refused == (403, "forbidden")

"""The worker protocol: claims, and writes that only the holder of a lease can make."""

from __future__ import annotations

import asyncio
import base64
import logging
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.http.conftest import Caller
from tests.http.messages import GONE, part, post

from fencepost import App, Retry
from fencepost.http import asgi
from fencepost.http.operations import claims
from fencepost.observe.log import FIELDS
from fencepost.testing import FakeClock

NOBODY = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"
VERBS = ["heartbeat", "ack", "nack", "release", "checkpoint", "progress"]
EXTRA: dict[str, dict[str, Any]] = {"progress": {"fraction": 0.5}}


def held(job: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": job["id"], "token": job["lease"]["token"], **more}


async def test_a_claimed_job_carries_all_that_its_worker_needs(api: Caller) -> None:
    job_id = await api.submit("other", {"x": 1}, tags={"t": "1"}, timeout=60)
    (job,) = await api.claim(types=["other"], lease_ttl="30s")
    assert (job["id"], job["attempt"], job["payload"]) == (job_id, 1, {"x": 1})
    assert (job["timeout"], job["lease_ttl"], job["tags"]) == (60.0, 30.0, {"t": "1"})
    assert (job["checkpoint"], job["dependencies"]) == (None, [])
    assert job["attempt_id"] == f"{job_id}.{job['lease']['version']}"
    assert job["previous_attempt_id"] is None
    assert await api.claim(types=["other"]) == []


async def test_a_job_is_done_once_and_its_result_is_kept(api: Caller) -> None:
    await api.submit("other")
    (job,) = await api.claim()
    answer = await api.post("/v1/leases/ack", held(job, result={"n": [1, 2]}))
    assert (answer["state"], answer["repeated"]) == ("completed", False)
    again = await api.post("/v1/leases/ack", held(job, result="other"))
    assert (again["state"], again["repeated"]) == ("completed", True)
    assert (await api.get(f"/v1/jobs/{job['id']}"))["result"] == {"n": [1, 2]}


async def test_a_payload_that_a_worker_cannot_read_is_left_to_others(api: Caller) -> None:
    """C47: given back uncounted, with its reason; the server knows for how long that goes on."""
    await api.submit("other", {"x": 1})
    (job,) = await api.claim()
    body = held(job, category="unreadable", message="no field x here")
    assert (await api.post("/v1/leases/nack", body))["state"] == "retrying"
    seen = await api.get(f"/v1/jobs/{job['id']}")
    assert (seen["state"], seen["attempt"]) == ("retrying", 0)
    assert seen["failure"]["code"] == "unreadable_payload"
    assert seen["failure"]["message"] == "no field x here"
    many = {"items": [body, {"id": NOBODY, "token": "x", "category": "unreadable"}]}
    answers = (await api.post("/v1/leases/nack", many))["items"]
    assert [each["status"] for each in answers] == [200, 409]


@pytest.mark.parametrize("verb", ["ack", "nack", "release"])
async def test_the_log_of_a_settlement_names_the_correlation_id(
    api: Caller, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S1-108: also where the worker is not ours."""
    caplog.set_level(logging.DEBUG, logger="fencepost")
    await api.submit("other", correlation_id="order 7")
    (job,) = await api.claim()
    await api.post(f"/v1/leases/{verb}", held(job))
    (settled,) = [
        each for each in caplog.records if vars(each).get("fencepost_event") == "job.settled"
    ]
    assert getattr(settled, FIELDS)["correlation_id"] == "order 7"


async def test_a_binary_result_travels_in_base64(api: Caller) -> None:
    await api.submit("other")
    (job,) = await api.claim()
    data = base64.b64encode(b"\x00\xff").decode()
    await api.post("/v1/leases/ack", held(job, result_base64=data))
    assert (await api.get(f"/v1/jobs/{job['id']}/result"))["result_base64"] == data


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"category": "temporary", "message": "later", "retry_after": "1h"}, "retrying"),
        ({"category": "permanent", "message": "never", "code": "E1"}, "failed"),
        ({"category": "timeout"}, "retrying"),
        ({}, "retrying"),
    ],
)
async def test_a_failure_is_judged_by_the_jobs_policy(
    api: Caller, body: dict[str, Any], state: str
) -> None:
    await api.submit("other")
    (job,) = await api.claim()
    assert (await api.post("/v1/leases/nack", held(job, **body)))["state"] == state
    (attempt,) = (await api.get(f"/v1/jobs/{job['id']}/attempts"))["attempts"]
    assert attempt["failure"]["category"] == body.get("category", "temporary")
    assert attempt["failure"].get("code") == body.get("code")


async def test_the_last_attempt_makes_a_dead_letter(api: Caller) -> None:
    await api.submit("other", retry={"max_attempts": 1})
    (job,) = await api.claim()
    assert (await api.post("/v1/leases/nack", held(job)))["state"] == "dead_letter"
    assert await api.refused("POST", "/v1/leases/ack", held(job)) == (409, "stale_lease")
    (letter,) = (await api.get("/v1/dead-letters"))["dead_letters"]
    assert letter["job_id"] == job["id"]


async def test_what_is_released_is_not_counted(api: Caller) -> None:
    """C23."""
    await api.submit("other")
    (job,) = await api.claim()
    assert (await api.post("/v1/leases/release", held(job)))["state"] == "scheduled"
    (again,) = await api.claim()
    assert (again["attempt"], again["previous_attempt_id"]) == (1, job["attempt_id"])
    assert again["lease"]["version"] > job["lease"]["version"]
    assert (await api.post("/v1/leases/release", held(again, delay="1h")))["state"] == "delayed"


async def test_checkpoint_and_progress_are_kept_for_the_next_attempt(api: Caller) -> None:
    await api.submit("other", retry={"max_attempts": 2, "initial_delay": 0})
    (job,) = await api.claim()
    await api.post("/v1/leases/checkpoint", held(job, checkpoint={"row": 10**20}))
    await api.post("/v1/leases/progress", held(job, fraction=0.25, message="a quarter"))
    shown = await api.get(f"/v1/jobs/{job['id']}")
    at = shown["progress"].pop("at")
    assert shown["created_at"] <= at
    assert shown["progress"] == {"fraction": 0.25, "message": "a quarter"}
    await api.post("/v1/leases/nack", held(job))
    (again,) = await api.claim()
    assert (again["attempt"], again["checkpoint"]) == (2, {"row": 10**20})


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
async def test_progress_lies_between_nothing_and_all(api: Caller, fraction: float) -> None:
    await api.submit("other")
    (job,) = await api.claim()
    body = held(job, fraction=fraction)
    assert await api.refused("POST", "/v1/leases/progress", body) == (422, "invalid_job")


async def test_a_heartbeat_extends_the_lease(api: Caller) -> None:
    await api.submit("other")
    (job,) = await api.claim(lease_ttl="10s")
    answer = await api.post("/v1/leases/heartbeat", held(job, lease_ttl="1h"))
    assert answer["expires_at"] > job["lease"]["expires_at"]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_stale_lease_writes_nothing(api: Caller, verb: str) -> None:
    """S0-49, S0-78."""
    await api.submit("other")
    (job,) = await api.claim()
    await api.post(f"/v1/jobs/{job['id']}/cancel")
    await api.post(f"/v1/jobs/{job['id']}/retry")
    (new,) = await api.claim()
    before = await api.get(f"/v1/jobs/{job['id']}")
    for token in (job["lease"]["token"], "", "forged"):
        body = {"id": job["id"], "token": token, **EXTRA.get(verb, {})}
        response = await api.ask("POST", f"/v1/leases/{verb}", body)
        assert (response.status_code, response.json()["code"]) == (409, "stale_lease"), token
        assert response.json()["state"] == "running"
    assert await api.get(f"/v1/jobs/{job['id']}") == before
    await api.post("/v1/leases/ack", held(new))


@pytest.mark.parametrize("verb", VERBS)
async def test_a_lease_on_nothing_is_stale(api: Caller, verb: str) -> None:
    for job_id in (NOBODY, "nonsense"):
        body = {"id": job_id, "token": "x", **EXTRA.get(verb, {})}
        assert await api.refused("POST", f"/v1/leases/{verb}", body) == (409, "stale_lease")


@pytest.mark.parametrize("verb", VERBS)
async def test_calls_without_a_token_are_refused(api: Caller, verb: str) -> None:
    """S0-77."""
    body = {"id": NOBODY, **EXTRA.get(verb, {})}
    status, code = await api.refused("POST", f"/v1/leases/{verb}", body)
    assert (status, code) == (422, "invalid_request")


async def test_a_heartbeat_without_a_time_extends_by_that_of_the_claim(api: Caller) -> None:
    """C3, C18: or by the job's own, and not by what a claim without one would ask for."""
    await api.submit("other")
    await api.submit("other", lease_ttl="20s")
    jobs = await api.claim(types=["other"], limit=2, lease_ttl="50s")
    reply = await api.post("/v1/leases/heartbeat", {"items": [held(job) for job in jobs]})
    gained = [
        datetime.fromisoformat(after["expires_at"])
        - datetime.fromisoformat(job["lease"]["expires_at"])
        for job, after in zip(jobs, reply["items"], strict=True)
    ]
    assert gained[0] == gained[1], "the time since the claim, for both"
    assert timedelta(0) < gained[0] < timedelta(seconds=200)


async def test_a_worker_is_held_to_the_execution_timeout(api: Caller) -> None:
    """C44, S1-42: by the store, in whatever language it is written."""
    await api.submit("other", timeout="40s")
    (job,) = await api.claim(types=["other"], lease_ttl="30s")
    first = datetime.fromisoformat(job["lease"]["expires_at"])
    for asked in ("1h", "2h"):
        reply = await api.post("/v1/leases/heartbeat", held(job, lease_ttl=asked))
        assert datetime.fromisoformat(reply["expires_at"]) - first == timedelta(seconds=10)


async def test_a_cancelled_job_tells_its_worker_at_the_next_heartbeat(api: Caller) -> None:
    """C20."""
    await api.submit("other")
    (job,) = await api.claim()
    await api.post(f"/v1/jobs/{job['id']}/cancel")
    response = await api.ask("POST", "/v1/leases/heartbeat", held(job))
    assert (response.status_code, response.json()["state"]) == (409, "cancelled")
    assert await api.refused("POST", "/v1/leases/ack", held(job)) == (409, "stale_lease")


async def test_a_batch_answers_for_each_lease(api: Caller) -> None:
    for _ in range(3):
        await api.submit("other")
    one, two, three = await api.claim()
    await api.post("/v1/leases/release", held(two))
    items = [
        held(one, result=1),
        held(two, result=2),
        held(three, result=3, result_base64="AA=="),
        {"id": NOBODY, "token": "x"},
    ]
    answers = (await api.post("/v1/leases/ack", {"items": items}))["items"]
    assert [(a["status"], a["state"], a.get("code")) for a in answers] == [
        (200, "completed", None),
        (409, "scheduled", "stale_lease"),
        (422, None, "invalid_payload"),
        (409, None, "stale_lease"),
    ]
    nacks = [held(three, category="permanent"), held(one), {"id": NOBODY, "token": "x"}]
    answers = (await api.post("/v1/leases/nack", {"items": nacks}))["items"]
    assert [a["status"] for a in answers] == [200, 409, 409]
    again = (await api.post("/v1/leases/nack", {"items": nacks[:1]}))["items"]
    assert [(a["status"], a["repeated"]) for a in again] == [(200, True)]
    for empty in ([], [held(one)] * 1_001):
        status, _ = await api.refused("POST", "/v1/leases/ack", {"items": empty})
        assert status == 422


async def test_a_claim_waits_for_a_job_if_it_is_asked_to(api: Caller) -> None:
    claiming = asyncio.create_task(api.claim(types=["late"], timeout="30s"))
    await asyncio.sleep(0)
    assert not claiming.done()
    job_id = await api.submit("late")
    (job,) = await claiming
    assert job["id"] == job_id
    assert await api.claim(types=["late"], timeout="10ms") == []


async def test_a_claim_whose_caller_has_hung_up_gives_its_jobs_back(api: Caller, app: App) -> None:
    """Nobody would hear of the lease; and the attempt is not counted."""
    job_id = await api.submit("other")
    claim = part(b'{"worker":"ghost","types":["other"],"timeout":"10s","lease_ttl":"1h"}')
    assert await post(app, "/v1/claims", [claim, GONE]) == 400
    (job,) = await api.claim(types=["other"])
    assert (job["id"], job["attempt"]) == (job_id, 1)
    assert job["previous_attempt_id"] is not None
    first, _ = (await api.get(f"/v1/jobs/{job_id}/attempts"))["attempts"]
    assert first["outcome"] == "released"


async def test_a_claim_sees_its_queues_and_types_only(api: Caller) -> None:
    mail = await api.submit("a", queue="mail")
    bulk = await api.submit("b", queue="bulk")
    assert [job["id"] for job in await api.claim(queues=["bulk"])] == [bulk]
    assert await api.claim(queues={"mail": 3, "bulk": 1}, types=["b"]) == []
    assert [job["id"] for job in await api.claim(queues={"mail": 3}, types=["a"])] == [mail]


async def test_nobody_claims_what_is_fenceposts_own(api: Caller, app: App) -> None:
    """A delivery is signed by whoever runs it: a worker from elsewhere must not get one."""
    from fencepost.core.job.job import NewJob

    app.submit_many([NewJob(type="fencepost.webhook")])
    assert await api.claim() == []
    body = {"types": ["fencepost.webhook"]}
    assert await api.refused("POST", "/v1/claims", body) == (422, "invalid_job")


@pytest.mark.parametrize(
    "body",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"types": []},
        {"queues": []},
        {"queues": {"mail": 0}},
        {"lease_ttl": "100ms"},
        {"worker": ""},
        {"timeout": "2m"},
        {"nonsense": 1},
    ],
)
async def test_a_claim_that_makes_no_sense_takes_nothing(api: Caller, body: dict[str, Any]) -> None:
    await api.submit("other")
    status, _ = await api.refused("POST", "/v1/claims", body)
    assert status == 422
    assert len(await api.claim()) == 1


async def test_a_worker_that_claims_is_listed(api: Caller) -> None:
    await api.claim(types=["a", "b"], queues=["mail"], worker="node-1", limit=4)
    (worker,) = (await api.get("/v1/workers"))["workers"]
    assert (worker["id"], worker["types"], worker["concurrency"]) == ("node-1", ["a", "b"], 4)


async def test_a_server_lists_so_many_workers_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their clients choose the names; those over the bound claim all the same."""
    monkeypatch.setattr(claims, "HTTP_WORKERS_MAX", 2)
    clock = FakeClock()
    app = App("memory://", clock=clock)
    transport = httpx.ASGITransport(app=asgi(app, is_local=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        api = Caller(client)

        async def listed() -> list[str]:
            return sorted(each["id"] for each in (await api.get("/v1/workers"))["workers"])

        for name in ("a", "b", "c"):
            await api.submit("other")
            assert len(await api.claim(worker=name)) == 1
        assert await listed() == ["a", "b"]
        clock.advance(40)
        for name in ("a", "c"):  # b may wait for a job
            await api.claim(worker=name)
        assert await listed() == ["a", "b"]
        clock.advance(40)
        for name in ("c", "d"):
            await api.claim(worker=name)
        assert await listed() == ["a", "c"]
    app.close()


async def test_results_of_dependencies_reach_the_worker(api: Caller) -> None:
    nodes = {"a": {"type": "x"}, "b": {"type": "y", "after": ["a"]}}
    await api.post("/v1/flows", {"nodes": nodes}, status=201)
    (first,) = await api.claim()
    await api.post("/v1/leases/ack", held(first, result={"n": 7}))
    (second,) = await api.claim()
    (dependency,) = second["dependencies"]
    assert (dependency["id"], dependency["node"]) == (first["id"], "a")
    assert (dependency["state"], dependency["result"]) == ("completed", {"n": 7})


async def test_a_backoff_function_is_asked_for_workers_in_other_languages_too(
    api: Caller, app: App
) -> None:
    """S1-55: by the server, which has the app."""
    asked: list[int] = []

    def backoff(attempt: int, initial: float, longest: float) -> float:
        asked.append(attempt)
        return 60.0 * len(asked)

    @app.task(retry=Retry(max_attempts=3, backoff=backoff))
    def work() -> None: ...

    await api.submit("work")
    before = len(asked)
    (job,) = await api.claim(types=["work"])
    await api.post("/v1/leases/nack", held(job))
    assert asked[before:] == [1]
    seen = await api.get(f"/v1/jobs/{job['id']}")
    waits = datetime.fromisoformat(seen["run_at"]) - datetime.fromisoformat(seen["updated_at"])
    assert waits.total_seconds() == 60.0 * len(asked)

"""``POST /v1/jobs`` and ``/v1/jobs/batch``: what is stored, and what each refusal says."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.http.conftest import Caller

from fencepost import App, State
from fencepost.core import bounds
from fencepost.testing import drain

BIG = 123456789012345678901234567890


async def test_a_submitted_job_is_stored_with_the_tasks_own_settings(api: Caller, app: App) -> None:
    response = await api.ask("POST", "/v1/jobs", {"type": "add", "payload": {"a": 1, "b": 2}})
    assert response.status_code == 201
    answer = response.json()
    assert answer == {"id": answer["id"], "type": "add", "state": "scheduled", "duplicate": False}
    assert response.headers["location"] == f"/v1/jobs/{answer['id']}"
    job = app.jobs.get(answer["id"]).refresh()
    assert (job.queue, job.priority) == ("sums", 1)
    await drain_async(app)
    assert app.jobs.get(answer["id"]).result() == 3


async def drain_async(app: App) -> None:
    await asyncio.to_thread(drain, app)


async def test_every_option_reaches_the_job(api: Caller, app: App) -> None:
    run_at = datetime.now(UTC) + timedelta(hours=1)
    job_id = await api.submit(
        "elsewhere",
        {"x": 1},
        queue="mail",
        priority=0,
        run_at=run_at.isoformat(),
        key="k1",
        key_window="active",
        on_duplicate="reject",
        tags={"tenant": "7"},
        correlation_id="c1",
        concurrency_key="ck",
        timeout="90s",
        lease_ttl=20,
        lifetime="1d",
        retry={"max_attempts": 7, "backoff": "linear", "jitter": "full"},
    )
    job = app.jobs.get(job_id).refresh()
    assert (job.queue, job.priority, job.state, job.run_at) == ("mail", 0, "delayed", run_at)
    assert (job.key, job.tags, job.correlation_id) == ("k1", {"tenant": "7"}, "c1")
    policy = job.policy
    assert (policy.timeout, policy.lease_ttl, policy.lifetime) == (90.0, 20.0, 86_400.0)
    assert (policy.max_attempts, policy.backoff.strategy, policy.backoff.jitter) == (7, "linear", 1)
    assert job.concurrency_key == "ck"


async def test_a_delayed_job_says_when_it_falls_due(api: Caller, app: App) -> None:
    body = {"type": "add", "payload": {"a": 1}, "delay": "10s"}
    answer = await api.post("/v1/jobs", body, status=201)
    job = app.jobs.get(answer["id"]).refresh()
    assert answer["state"] == "delayed"
    assert datetime.fromisoformat(answer["run_at"]) == job.run_at


async def test_a_key_returns_the_existing_job_or_refuses(api: Caller) -> None:
    """S1-52, C15."""
    first = await api.submit("add", {"a": 1}, key="k")
    again = await api.post("/v1/jobs", {"type": "add", "payload": {"a": 2}, "key": "k"})
    assert (again["id"], again["duplicate"], again["queue"]) == (first, True, "sums")
    body = {"type": "add", "payload": {"a": 2}, "key": "k", "on_duplicate": "reject"}
    response = await api.ask("POST", "/v1/jobs", body)
    assert (response.status_code, response.json()["code"]) == (409, "duplicate_key")
    assert response.json()["existing"] == first


async def test_numbers_of_any_size_are_kept_exactly(api: Caller) -> None:
    text = f'{{"type": "other", "payload": {{"n": {BIG}, "f": 0.1000000000000000055511}}}}'
    headers = {"content-type": "application/json"}
    response = await api.ask("POST", "/v1/jobs", content=text, headers=headers)
    job_id = response.json()["id"]
    shown = await api.ask("GET", f"/v1/jobs/{job_id}")
    assert f'"payload":{{"n": {BIG}, "f": 0.1000000000000000055511}}' in shown.text
    (claimed,) = await api.claim(types=["other"])
    assert claimed["payload"]["n"] == BIG


async def test_a_binary_payload_travels_in_base64(api: Caller, app: App) -> None:
    """C24."""
    data = bytes(range(256))
    body = {"type": "size", "payload_base64": base64.b64encode(data).decode()}
    job_id = (await api.post("/v1/jobs", body, status=201))["id"]
    assert base64.b64decode((await api.get(f"/v1/jobs/{job_id}"))["payload_base64"]) == data
    await drain_async(app)
    assert app.jobs.get(job_id).result() == 256


REFUSED = [
    ({"type": "add", "payload": {"a": "x"}}, 422, "invalid_payload"),
    ({"type": "add", "payload": {"a": 1, "c": 1}}, 422, "invalid_payload"),
    ({"type": "add", "payload": [1]}, 422, "invalid_payload"),
    ({"type": "add"}, 422, "invalid_payload"),
    ({"type": "size", "payload_base64": "%"}, 422, "invalid_payload"),
    ({"type": "x", "payload": 1, "payload_base64": ""}, 422, "invalid_payload"),
    ({"type": "fencepost.webhook"}, 422, "invalid_job"),
    ({"type": ""}, 422, "invalid_job"),
    ({"type": "x", "tags": {"fencepost.event": "y"}}, 422, "invalid_job"),
    ({"type": "x", "key": ""}, 422, "invalid_key"),
    ({"type": "x", "delay": "soon"}, 422, "invalid_duration"),
    ({"type": "x", "delay": -1}, 422, "invalid_duration"),
    ({"type": "x", "delay": 1, "run_at": "2030-01-01T00:00:00Z"}, 422, "invalid_job"),
    ({"type": "x", "run_at": "2030-01-01T00:00:00"}, 422, "invalid_job"),
    ({"type": "x", "priority": 9}, 422, "invalid_job"),
    ({"type": "x", "after": ["0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"]}, 422, "dependency_unknown"),
    ({"type": "x", "after_any": []}, 422, "dependency_none"),
    ({"type": "x", "retry": {"max_attempts": 0}}, 422, "invalid_request"),
    ({"type": "x", "id": "mine"}, 422, "invalid_request"),
    ({"type": "x", "payload": {"a": "x" * 1_000_001}}, 413, "payload_too_large"),
    ({"payload": {}}, 422, "invalid_request"),
]


@pytest.mark.parametrize(("body", "status", "code"), REFUSED)
async def test_what_is_refused_says_why_and_stores_nothing(
    api: Caller, app: App, body: dict[str, Any], status: int, code: str
) -> None:
    assert await api.refused("POST", "/v1/jobs", body) == (status, code)
    assert app.jobs.count() == 0


async def test_strangers_share_a_commit(api: Caller, app: App) -> None:
    await asyncio.gather(*(api.submit("add", {"a": n}) for n in range(50)))
    assert app.jobs.count(type="add") == 50
    assert app.session.counters.get("store.operation", operation="enqueue") < 50


async def test_a_batch_answers_for_each_job(api: Caller, app: App) -> None:
    await api.submit("add", {"a": 1}, key="taken")
    jobs = [
        {"type": "add", "payload": {"a": 1}},
        {"type": "add", "payload": {"a": "x"}},
        {"type": "add", "payload": {"a": 1}, "key": "taken"},
        {"type": "add", "payload": {"a": 1}, "key": "taken", "on_duplicate": "reject"},
        {"type": "other", "after": ["0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"]},
        {"type": "other"},
    ]
    answers = (await api.post("/v1/jobs/batch", {"jobs": jobs}, status=201))["jobs"]
    assert [each.get("state") or each["code"] for each in answers] == [
        "scheduled",
        "invalid_payload",
        "scheduled",
        "duplicate_key",
        "dependency_unknown",
        "scheduled",
    ]
    assert [each.get("duplicate") for each in answers] == [False, None, True, None, None, False]
    assert answers[3]["existing"] == answers[2]["id"]
    assert app.jobs.count() == 3


@pytest.mark.parametrize(
    ("bad", "status", "code"),
    [
        ({"type": "add", "payload": {"a": "x"}}, 422, "invalid_payload"),
        ({"type": "add", "payload": {"a": 1}, "key": "t", "on_duplicate": "reject"}, 409, None),
        ({"type": "y", "after": ["0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"]}, 422, None),
    ],
)
async def test_an_atomic_batch_stores_all_or_none(
    api: Caller, app: App, bad: dict[str, Any], status: int, code: str | None
) -> None:
    await api.submit("add", {"a": 1}, key="t")
    body = {"jobs": [{"type": "x"}, bad], "atomic": True}
    answer = await api.refused("POST", "/v1/jobs/batch", body)
    assert answer[0] == status
    assert code is None or answer[1] == code
    assert app.jobs.count() == 1
    good = {"jobs": [{"type": "x"}, {"type": "y"}], "atomic": True}
    await api.post("/v1/jobs/batch", good, status=201)
    assert app.jobs.count() == 3


FULL = (422, "too_many_lanes")


@pytest.mark.parametrize("is_atomic", [False, True])
@pytest.mark.parametrize("other", [{}, {"delay": "1h"}], ids=["plain", "with another"])
async def test_a_batch_with_one_name_too_many_is_refused(
    api: Caller, app: App, monkeypatch: pytest.MonkeyPatch, is_atomic: bool, other: dict[str, Any]
) -> None:
    """Whole: none of its jobs is at fault by itself."""
    await api.submit("x")
    monkeypatch.setattr(bounds, "LANES_MAX", 1)
    body = {"jobs": [{"type": "x"} | other, {"type": "x"}, {"type": "y"}], "atomic": is_atomic}
    assert await api.refused("POST", "/v1/jobs/batch", body) == FULL
    assert await api.refused("POST", "/v1/jobs", {"type": "y"}) == FULL
    assert app.jobs.count() == 1


async def test_a_refused_job_costs_strangers_nothing(
    api: Caller, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who submit at the same moment share a transaction, and no more than that."""
    await api.submit("x")
    monkeypatch.setattr(bounds, "LANES_MAX", 1)
    before = app.session.counters.get("store.operation", operation="enqueue")
    submissions = [api.ask("POST", "/v1/jobs", {"type": "xy"[n == 7]}) for n in range(20)]
    answers = await asyncio.gather(*submissions)
    assert [n for n, answer in enumerate(answers) if answer.status_code != 201] == [7]
    assert app.jobs.count() == 20
    assert app.session.counters.get("store.operation", operation="enqueue") - before < 19


@pytest.mark.parametrize("count", [0, 10_001])
async def test_a_batch_is_bounded(api: Caller, app: App, count: int) -> None:
    body = {"jobs": [{"type": "x"}] * count}
    assert await api.refused("POST", "/v1/jobs/batch", body) == (422, "invalid_request")
    assert app.jobs.count(state=State.SCHEDULED) == 0


async def test_a_job_that_could_never_run_is_refused(api: Caller) -> None:
    """C48: alone, and of a batch that is not atomic by itself."""
    late = {"type": "other", "run_at": "2999-01-01T00:00:00Z"}
    slow = {"type": "other", "delay": "8d"}
    for body in (late, slow):
        assert await api.refused("POST", "/v1/jobs", body) == (422, "invalid_job")
    good = {"type": "other"}
    answer = await api.post("/v1/jobs/batch", {"jobs": [good, late, slow, good]}, status=201)
    codes = [job.get("code") for job in answer["jobs"]]
    assert codes == [None, "invalid_job", "invalid_job", None]
    batch = {"jobs": [good, late], "atomic": True}
    assert await api.refused("POST", "/v1/jobs/batch", batch) == (422, "invalid_job")
    assert (await api.get("/v1/jobs/count"))["count"] == 2


SQUATTED = {"type": "x", "queue": "mine", "key": "cron:nightly:2030-01-01T03:00:00Z"}
SQUATTING: list[tuple[str, Any]] = [
    ("/v1/jobs", SQUATTED),
    ("/v1/jobs/batch", {"jobs": [{"type": "x"}, SQUATTED], "atomic": True}),
    ("/v1/flows", {"nodes": {"first": SQUATTED}}),
    ("/v1/events/user.created", {"key": SQUATTED["key"]}),
]


@pytest.mark.parametrize(("path", "body"), SQUATTING)
async def test_the_key_of_a_crons_tick_cannot_be_taken(
    api: Caller, app: App, path: str, body: Any
) -> None:
    """Its job would not be made: whoever may submit its type to any queue could switch it off."""
    assert await api.refused("POST", path, body) == (422, "invalid_key")
    assert list(app.jobs.find()) == []

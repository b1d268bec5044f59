"""Payload, result and progress of a job are plain values, and a job is written as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from tests.http.serving import serving
from tests.worker.support import drain

from fencepost import App, Client, Context, EncryptionKey, StateConflictError, UnreadableValue
from fencepost.core.job.job import Body, Encoding, NewJob

LARGE = 2**77 + 1
HALF = {"fraction": 0.5, "message": "half", "at": None}
"""What the handler reports; when, the store's clock says."""
KEY = EncryptionKey("k1", b"k" * 32)


def declare(app: App) -> Any:
    @app.task
    def work(ctx: Context, to: str, sizes: list[int]) -> dict[str, Any]:
        ctx.checkpoint({"page": 2})
        ctx.progress(0.5, "half")
        return {"to": to, "sum": sum(sizes)}

    return work


async def test_a_job_shows_plain_values(app: App) -> None:
    work = declare(app)
    waiting = work.submit("a@b.c", [1, 2]).refresh()
    assert (waiting.payload, waiting.result) == ({"to": "a@b.c", "sizes": [1, 2]}, None)
    assert (waiting.progress, waiting.checkpoint, waiting.raw_result) == (None, None, None)
    await drain(app)
    job = app.jobs.get(waiting.id).refresh()
    (listed,) = app.jobs.find()
    for each in (job, listed):
        assert each.result == {"to": "a@b.c", "sum": 3}
        assert each.progress is not None
        assert each.progress | {"at": None} == HALF
        assert each.checkpoint == {"page": 2}
        assert each.raw_payload == b'{"to":"a@b.c","sizes":[1,2]}'
        assert each.raw_result == b'{"to":"a@b.c","sum":3}'


def test_what_is_changed_in_a_value_does_not_change_the_job(app: App) -> None:
    job = declare(app).submit("a@b.c", [1]).refresh()
    job.payload["sizes"].append(2)
    assert job.payload["sizes"] == [1]


async def test_a_handle_shows_what_it_has_read(app: App) -> None:
    work = declare(app)
    submitted = work.submit("a@b.c", [1])
    assert submitted.payload == {"to": "a@b.c", "sizes": [1]}  # read when first asked for
    found = app.jobs.get(submitted.id)
    aio = await app.aio.jobs.get(submitted.id)
    assert found.to_dict() == aio.to_dict() == found.aio.to_dict() == found.refresh().to_dict()
    assert json.loads(found.to_json()) == found.to_dict()
    await drain(app)
    assert (found.progress, found.to_dict()["result"]) == (None, None)
    found.refresh()
    assert found.progress is not None
    assert found.progress | {"at": None} == HALF
    assert found.to_dict()["result"] == {"to": "a@b.c", "sum": 1}


async def test_a_handle_shows_nothing_that_it_has_made_out_of_date(app: App) -> None:
    work = declare(app)
    job, other = app.jobs.get(work.submit("a@b.c", [1]).id), work.submit("a@b.c", [2]).aio
    await other.refresh()
    job.cancel()
    await other.cancel()
    assert job.to_dict()["state"] == job.state == "cancelled"
    with pytest.raises(StateConflictError, match=r"await job\.refresh\(\)"):
        other.to_dict()


async def test_an_awaited_handle_that_has_read_nothing_says_what_to_do(app: App) -> None:
    job = await declare(app).aio.submit("a@b.c", [1])
    with pytest.raises(StateConflictError, match=r"await job\.refresh\(\)"):
        _ = job.payload
    await job.refresh()
    assert job.payload["sizes"] == [1]


async def test_a_job_is_written_as_the_server_answers_it(app: App) -> None:
    """So that a web framework can return it: every value in it has a JSON form."""
    job = declare(app).using(tags={"a": "b"}, key="k").submit("a@b.c", [1])
    await drain(app)
    shown = app.jobs.get(job.id).to_dict()
    assert json.loads(json.dumps(shown)) == shown
    with serving(app) as server, Client(server.url) as client:
        assert httpx.get(f"{server.url}/v1/jobs/{job.id}").json() == shown
        remote = client.jobs.get(job.id)
        assert remote.to_dict() == shown
        assert remote.payload == shown["payload"]
        assert msgspec.to_builtins(remote.progress) == shown["progress"]
        assert remote.refresh().result == shown["result"]
        (listed,) = client.jobs.find()
        assert msgspec.to_builtins(listed.progress) == shown["progress"]
        both = listed.to_dict().keys() - {"preview"}
        assert both > {"id", "state", "progress"}
        assert listed.to_dict() == {name: shown[name] for name in both} | {
            "preview": json.dumps(shown["payload"], separators=(",", ":"))
        }


def stored(app: App, payload: Body) -> Any:
    (reply,) = app.store.run(app.store.queue.enqueue([NewJob(type="work", payload=payload)]))
    return app.jobs.get(reply.job_id).refresh()


def test_bytes_stay_bytes_and_are_base64_in_json(app: App) -> None:
    job = stored(app, Body(b"\0\xff", Encoding.BINARY))
    assert job.payload == job.raw_payload == b"\0\xff"
    assert job.to_dict()["payload_base64"] == "AP8="
    assert "payload" not in job.to_dict()


def test_corrupt_json_is_named_and_does_not_hide_the_job(app: App) -> None:
    job = stored(app, Body(b'{"a":'))
    assert isinstance(job.payload, UnreadableValue)
    assert "not valid JSON" in job.payload.reason
    assert (job.raw_payload, job.to_dict()["payload_base64"]) == (b'{"a":', "eyJhIjo=")


def test_json_keeps_every_digit(app: App) -> None:
    job = stored(app, Body(b'{"n": %d}' % LARGE))
    assert f'"payload":{{"n": {LARGE}}}' in job.to_json()


def test_what_cannot_be_decrypted_is_named_and_does_not_hide_the_job(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with App(url, keys=[KEY]) as app:
        job = declare(app).submit("a@b.c", [1])
        assert job.payload == {"to": "a@b.c", "sizes": [1]}
    with App(url) as app, serving(app) as server, Client(server.url) as client:
        for found in (app.jobs.get(job.id), client.jobs.get(job.id)):
            assert found.payload == UnreadableValue("encrypted (key k1)")
            assert found.to_dict()["payload_encrypted"] == "encrypted (key k1)"
            assert "payload" not in found.to_dict()
            assert found.to_dict()["state"] == "scheduled"


async def test_an_endpoint_of_fastapi_returns_a_job_and_its_values(app: App) -> None:
    """By FastAPI's own encoder, which knows nothing of ours."""
    work, api = declare(app), FastAPI()

    @api.get("/jobs/{id}")
    def whole(id: str) -> Any:
        return app.jobs.get(id).refresh().to_dict()

    @api.get("/values/{id}")
    def values(id: str) -> Any:
        job = app.jobs.get(id).refresh()
        return {"payload": job.payload, "result": job.result, "progress": job.progress}

    job = work.submit("a@b.c", [1, 2])
    await drain(app)
    transport = httpx.ASGITransport(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        shown = (await client.get(f"/jobs/{job.id}")).json()
        found = (await client.get(f"/values/{job.id}")).json()
    assert shown == json.loads(job.refresh().to_json())
    assert shown["result"] == {"to": "a@b.c", "sum": 3}
    assert (found["payload"], found["result"]) == (shown["payload"], shown["result"])
    assert found["progress"]["message"] == "half"

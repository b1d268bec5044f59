"""Models of jobs: what a site shows of them, and what its OpenAPI document says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ValidationError

from fencepost import App, PermanentError, StateConflictError
from fencepost.fastapi import JobModel, SubmittedJob
from fencepost.wire.jobs import JobView


class Invoice(BaseModel):
    total: int


@pytest.fixture
def app() -> Iterator[App]:
    with App("memory://") as app:
        yield app


def client_of(site: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=site), base_url="http://localhost")


async def test_endpoints_return_handles_and_jobs(app: App) -> None:
    @app.task
    def bill(order: int) -> dict[str, int]:
        return {"total": order}

    site = FastAPI()

    @site.post("/bills", response_model=SubmittedJob)
    async def make(order: int) -> Any:
        return await bill.using(key=f"order:{order}").aio.submit(order)

    @site.get("/bills/{id}")
    async def get(id: str) -> JobModel[Invoice]:
        return JobModel[Invoice].of(await app.aio.jobs.get(id))

    @site.get("/jobs/{id}", response_model=JobModel)
    def look(id: str) -> Any:
        return app.jobs.get(id).refresh()

    async with client_of(site) as client:
        first = (await client.post("/bills", params={"order": 7})).json()
        again = (await client.post("/bills", params={"order": 7})).json()
        assert first == {**first, "type": "bill", "state": "scheduled", "duplicate": False}
        assert again == {**first, "duplicate": True}
        await app.worker().aio.run(until_idle=True)
        job = (await client.get(f"/bills/{first['id']}")).json()
        assert (job["state"], job["result"], job["key"]) == ("completed", {"total": 7}, "order:7")
        assert (await client.get(f"/jobs/{first['id']}")).json() == job
        assert not {"payload", "lease", "policy", "checkpoint"} & job.keys()
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert {"SubmittedJob", "JobModel", "JobModel_Invoice_", "Invoice", "State"} <= schemas.keys()
    assert schemas["SubmittedJob"]["required"] == ["id", "type", "state"]


def test_a_failure_shows_no_traceback(app: App) -> None:
    @app.task
    def bill() -> None:
        raise PermanentError("no such order", code="unknown_order")

    job = bill.submit()
    app.worker().run(until_idle=True)
    shown = JobModel[Any].of(job.refresh())
    assert shown.failure is not None
    assert shown.failure.model_dump() == {
        "category": "permanent",
        "message": "no such order",
        "code": "unknown_order",
    }


def test_every_field_is_one_of_the_api(app: App) -> None:
    fields = JobModel.model_fields.keys()
    assert fields <= set(JobView.__struct_fields__)

    @app.task
    def work(ctx: Any = None) -> bytes:
        return b"\0\xff"

    job = work.using(tags={"a": "b"}, correlation_id="c").submit()
    app.worker().run(until_idle=True)
    found = job.refresh()
    shown = json.loads(JobModel[Any].of(found).model_dump_json())
    assert shown.pop("result") is None  # bytes are no JSON
    for name in ("created_at", "run_at", "started_at", "completed_at"):
        assert shown.pop(name).rstrip("Z") in str(found.to_dict()[name])
    assert shown == {name: found.to_dict()[name] for name in shown}


def test_a_result_of_another_kind_is_refused(app: App) -> None:
    @app.task
    def work() -> str:
        return "seven"

    job = work.submit()
    app.worker().run(until_idle=True)
    with pytest.raises(ValidationError):
        JobModel[int].of(job)
    assert JobModel[str].of(job).result == "seven"


async def test_a_handle_that_has_not_read_its_job_says_so(app: App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(StateConflictError, match="refresh"):
        JobModel[None].of(await work.aio.submit())

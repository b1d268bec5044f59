"""The examples of web frameworks and SQLAlchemy work when they are started as their pages say."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg
from tests.examples.running import completed, example
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.worker.support import LONG

from fencepost import App, State


def test_fastapi_ships_what_was_ordered(fresh_postgres: FreshPostgres, tmp_path: Path) -> None:
    url = fresh_postgres(postgres_sources()[0])
    with psycopg.connect(url) as admin:
        admin.execute("drop table if exists public.orders")
    asyncpg_url = url.replace("postgresql:", "postgresql+asyncpg:", 1)
    with (
        example("fastapi", tmp_path, DATABASE_URL=asyncpg_url) as shop,
        shop.serving("uvicorn", "shop:site", path="/queue/health/ready") as client,
    ):
        answer = client.post("/orders", params={"thing": "lamp"})
        assert answer.status_code == 202
        assert answer.json()["type"] == "ship"
        job = completed(client, f"/jobs/{answer.json()['id']}")
        assert job["result"] == "lamp is on its way, by order 1"
        assert client.post("/orders", params={"thing": "lamp"}).status_code == 409
        assert client.get("/jobs/00000000-0000-4000-8000-000000000000").status_code == 404
        assert client.get("/queue/").status_code == 200
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
        assert {"SubmittedJob", "JobModel_str_"} <= schemas.keys()
        (server,) = shop.processes
        server.send_signal(signal.SIGTERM)
        assert server.wait(LONG) in (0, -signal.SIGTERM)
    with App(url) as app:
        assert app.jobs.count() == 1
        assert app.workers.list() == []
    with psycopg.connect(url) as admin:
        admin.execute("drop table public.orders")


def test_flask_ships_what_was_ordered_once(tmp_path: Path) -> None:
    flask = ("flask", "--app", "shop")
    with (
        example("flask", tmp_path, FLASK_TOWN="Faro") as shop,
        shop.serving(*flask, "run", path="/ready") as client,
    ):
        order = {"thing": "lamp", "number": "17"}
        first, second = (client.post("/orders", data=order).json() for _ in range(2))
        assert (first["duplicate"], second) == (False, {"job": first["job"], "duplicate": True})
        assert client.get("/jobs/00000000-0000-4000-8000-000000000000").status_code == 404
        worker = shop.start(*flask, "fencepost", "worker")
        job = completed(client, f"/jobs/{first['job']}")
        assert job["result"] == "lamp is on its way to Faro"
        assert first["job"] in shop.run("-m", *flask, "fencepost", "jobs", "ls")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(LONG) == 0


def test_sqlalchemy_ships_what_was_ordered(fresh_postgres: FreshPostgres, tmp_path: Path) -> None:
    url = fresh_postgres(postgres_sources()[0])
    with psycopg.connect(url) as admin:
        admin.execute("drop table if exists public.orders")
    with example("sqlalchemy", tmp_path, DATABASE_URL=url) as shop, App(url) as app:
        ids = shop.run("orders.py", "lamp", "chair", "table").split()
        assert len(ids) == 3
        shop.run("-m", "fencepost", "worker", "orders:app", "--burst")
        jobs = [app.jobs.get(job_id) for job_id in ids]
        assert [job.state for job in jobs] == [State.COMPLETED] * 3
        assert [job.result(0) for job in jobs][:2] == ["lamp is on its way", "chair is on its way"]
    with psycopg.connect(url) as admin:
        shipped = admin.execute("select count(*) from orders where is_shipped").fetchone()
        admin.execute("drop table public.orders")
    assert shipped == (3,)

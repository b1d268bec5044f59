"""Blocks of the documentation that need something beside them: a server, a key, a project.

`tests/test_docs.py` runs all others, each as a program of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from tests.documentation import DOCS, ROOT, Block, blocks_of, pages
from tests.http.serving import serving
from tests.worker.support import working_in_thread

from fencepost import App, Context, State
from fencepost.clock import SystemClock

HERE = "tests/test_docs_supplied.py"
RUN_BY = {
    "client.md": HERE,
    "django.md": HERE,
    "encryption.md": HERE,
    "testing.md": HERE,
    "tutorial/production.md": HERE,
    "fastapi.md": "tests/app/test_own_transaction.py",
    "transactions.md": "tests/app/test_own_transaction.py",
    "hooks.md": "tests/app/test_recipes.py",
}
"""The test that runs those blocks of a page that are not programs by themselves."""
SETTINGS = ("FENCEPOST_", "DATABASE_URL", "DJANGO_")


def supplied(page: str, words: str) -> str:
    """Return the one block of *page* with these words that needs something beside it."""
    (block,) = [block for block in not_run(DOCS / page) if words in block.source]
    return block.source


def not_run(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if not block.is_run]


def run(folder: Path, *words: str, **environment: str) -> None:
    """Run Python in *folder* with these settings and no others."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)} | environment
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stdout + done.stderr


def run_program(folder: Path, source: str, **environment: str) -> None:
    (folder / "program.py").write_text(source)
    run(folder, "program.py", **environment)


def test_every_block_is_run_by_a_test() -> None:
    found = {path.relative_to(DOCS).as_posix() for path in pages() if not_run(path)}
    assert found == set(RUN_BY)
    for page, test in RUN_BY.items():
        assert page in (ROOT / test).read_text()


def test_the_client_does_what_its_page_shows(tmp_path: Path) -> None:
    source = supplied("client.md", "Client(")
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def send_mail(to: str, subject: str) -> str:
            return f"{subject} to {to}"

        @app.task
        def resize(data: bytes) -> int:
            return len(data)

        @app.task
        def load(day: int) -> int:
            return day

        @app.task
        def report(ctx: Context) -> None: ...

        with serving(app) as server, working_in_thread(app):
            mine = source.replace('"https://queue.example", "fp_…"', repr(server.url))
            run_program(tmp_path, mine)
        assert app.jobs.count(type="send_mail") == 4
        assert app.jobs.count(type="report", state=State.COMPLETED) == 1


def test_a_store_with_plain_content_is_read_until_a_day() -> None:
    source = supplied("encryption.md", "accept until")
    tomorrow = (SystemClock().now() + timedelta(days=1)).date()
    given = re.sub(r"\d{4}-\d\d-\d\d", str(tomorrow), source)
    names: dict[str, Any] = {"App": App}
    exec(given.replace("App(keys=[...]", 'App("memory://", keys=[f"k:{\'A\' * 43}="]'), names)
    names["app"].close()


def test_an_order_and_its_job_are_committed_together(postgres_url: str, tmp_path: Path) -> None:
    first_job = blocks_of(DOCS / "tutorial" / "first-job.md")[0].source
    (tmp_path / "app.py").write_text(first_job)
    source = supplied("tutorial/production.md", "write_receipt")
    url = "postgresql://shop:secret@localhost/shop"
    assert url in source
    with App(postgres_url) as app, psycopg.connect(postgres_url) as conn:
        app.migrate()
        conn.execute("create table orders (id int generated always as identity, total numeric)")
        conn.commit()
        run_program(tmp_path, source.replace(url, postgres_url), FENCEPOST_URL=postgres_url)
        (order,) = conn.execute("select id from orders").fetchall()
        assert [job.payload["order"] for job in app.jobs.find()] == [order[0]]


def test_a_store_of_ones_own_takes_the_exam(tmp_path: Path) -> None:
    """With the SQLite store in place of one's own, and a few of the suite's tests."""
    (tmp_path / "mine.py").write_text(
        "from fencepost.store.sqlite.store import SqliteStore\n\n"
        "def MyStore(path, *, clock):\n    return SqliteStore(str(path), clock=clock)\n"
    )
    (tmp_path / "test_mine.py").write_text(supplied("testing.md", "MyStore"))
    words = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto")
    places = os.pathsep.join([str(tmp_path), str(ROOT)])
    run(tmp_path, *words, "-k", "test_jobs_that_are_there_go_on", "test_mine.py", PYTHONPATH=places)


def project_in(folder: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / "django", folder / "project"))


def test_the_api_has_a_place_in_a_django_project(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    (project / "shop" / "asgi.py").write_text(supplied("django.md", "get_asgi_application"))
    program = """
from shop.asgi import application
from starlette.testclient import TestClient

client = TestClient(application)
assert client.get("/queue/health/live").status_code == 200
answer = client.get("/nowhere/")
assert (answer.status_code, "shop.urls" in answer.text) == (404, True)
"""
    run_program(project, program, DJANGO_SETTINGS_MODULE="shop.settings")


def test_tasks_and_tests_of_a_django_project_are_as_its_page_shows(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    tasks = (project / "orders" / "tasks.py").read_text()
    of_django = tasks[: tasks.index("@app.task")]
    (project / "orders" / "tasks.py").write_text(of_django + supplied("django.md", "def ship"))
    (project / "orders" / "tests.py").write_text(supplied("django.md", "TestCase"))
    run(project, "manage.py", "test", "--noinput", "-v", "0")

"""The first job of a worker is as fast as the second: what it needs is loaded before the claim."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.worker.support import LONG, eventually_sync

from fencepost import App, JobHandle
from fencepost.core.job.job import NewJob
from fencepost.core.values.payload import encode

PROGRAM = Path(__file__).parent / "programs" / "first_job.py"


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_first_jobs_import_nothing_and_find_a_child(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if engine == "postgres":
        fresh: FreshPostgres = request.getfixturevalue("fresh_postgres")
        url = fresh(postgres_sources()[0])
    with App(url) as app:
        app.migrate()
        command = [sys.executable, str(PROGRAM), url]
        pipe = subprocess.PIPE
        worker = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        eventually_sync(app.workers.list, "the worker")
        for type in ("on_the_loop", "in_a_thread", "failing"):
            run(app, type)
        first, second = run(app, "in_a_child").result(0), run(app, "in_a_child").result(0)
        told, _ = worker.communicate(timeout=LONG)
    assert worker.returncode == 0
    found = json.loads(told)
    assert found["imported"] == []
    assert [first[0], [int(first[1])]] == [str(worker.pid), found["children"]]
    assert first == second, "the child had imported its handlers as well"


def run(app: App, type: str) -> JobHandle[list[str]]:
    """Run a job of a task that this process does not know."""
    (job,) = app.submit_many([NewJob(type=type, payload=encode({"number": 1}))])
    eventually_sync(lambda: job.refresh().state.is_terminal, f"the end of {type}")
    return job

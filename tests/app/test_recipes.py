"""The recipes of the page on hooks that need something from outside; the others run as they are."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport
from tests.documentation import DOCS, blocks_of

from fencepost import App, Retry


class Collecting(Transport):
    """Keeps what the real SDK would send."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        super().__init__()
        self._events = events

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            self._events.append(dict(event))


def load(source: str) -> App:
    module = types.ModuleType("recipe")
    sys.modules["recipe"] = module
    exec(compile(source, "recipe", "exec"), vars(module))
    app: App = vars(module)["app"]
    return app


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_sentry_gets_each_dead_letter_with_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (source,) = [b.source for b in blocks_of(DOCS / "hooks.md") if "sentry_sdk.init" in b.source]
    events: list[dict[str, Any]] = []
    monkeypatch.setenv("FENCEPOST_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("SENTRY_DSN", "http://key@localhost/1")
    init = partial(sentry_sdk.init, transport=Collecting(events), default_integrations=False)
    monkeypatch.setattr(sentry_sdk, "init", init)
    try:
        with load(source) as app:
            if kind == "def":

                @app.task(name="work", retry=Retry.none())
                def work() -> None:
                    raise ValueError("broken")

                job = work.submit()
            else:

                @app.task(name="work", retry=Retry.none())
                async def work_async() -> None:
                    raise ValueError("broken")

                job = work_async.submit()
            app.worker().run(until_idle=True)
            sentry_sdk.flush()
    finally:
        sentry_sdk.get_global_scope().set_client(None)
    [event] = events
    [raised] = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ValueError", "broken")
    assert event["tags"] == {"job.type": "work", "job.queue": "default"}
    assert event["contexts"]["job"] == {"id": job.id, "attempt": 1}


def test_sentry_picks_up_a_last_failure_from_the_log_alone(tmp_path: Path) -> None:
    """Nothing of ours is set up; attempts that are retried are no events."""
    from sentry_sdk.integrations.logging import LoggingIntegration

    events: list[dict[str, Any]] = []
    sentry_sdk.init(
        "http://key@localhost/1",
        transport=Collecting(events),
        default_integrations=False,
        integrations=[LoggingIntegration()],
    )
    try:
        with App(f"sqlite:///{tmp_path}/jobs.db", retry=Retry(initial_delay=0.01)) as app:

            @app.task
            async def work() -> None:
                raise ValueError("broken")

            job = work.submit()
            for _ in range(3):
                app.worker().run(until_idle=True)
                app.session.clock.sleep(0.2)  # until the next attempt is due
            sentry_sdk.flush()
    finally:
        sentry_sdk.get_global_scope().set_client(None)
    [event] = events
    [raised] = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ValueError", "broken")
    assert event["logger"] == "fencepost.jobs"
    assert job.id in event["logentry"]["message"]


def test_structlog_and_fencepost_write_lines_of_one_form_with_the_job(tmp_path: Path) -> None:
    (source,) = [b.source for b in blocks_of(DOCS / "logging.md") if "import structlog" in b.source]
    program = tmp_path / "app.py"
    program.write_text(source)
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    found = {line["event"]: line for line in lines}
    own, ours = found["greeted"], found["attempt.succeeded"]
    assert own["name"] == "Ada"
    assert (own["job_type"], own["job_queue"], own["job_attempt"]) == ("greet", "default", 1)
    assert ours["id"] == own["job_id"]
    assert {line["level"] for line in (own, ours)} == {"info"}
    assert all(line["timestamp"].startswith("20") for line in lines)

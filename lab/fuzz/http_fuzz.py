"""The HTTP API under fuzz: schemathesis asks a running server whatever its document allows.

No answer may be a server error, and none may be outside of the document: its status, its headers,
its media type and its body are held against it, and what the document forbids must be refused.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from tests.http.sockets import serving

from fencepost import App
from fencepost.core.values.times import Duration, parse_duration
from fencepost.http.operations import claims, jobs
from fencepost.http.server.connection import ConnectionLimits

WAIT_MAX = 0.05
"""A fuzzer that asks to wait for a job is not to be waited for."""
SETTINGS = """
[checks]
# Done by `http_checks`, which knows the few rules that a schema has no words for.
positive_data_acceptance.enabled = false
# Nothing that can be deleted is gone at once: a job stays, and so does the name of a cron.
use_after_free.enabled = false
ensure_resource_availability.enabled = false

# Of a batch, what is wrong with one is said of that one, and the others are not refused for it.
[[operations]]
include-path-regex = "^/v1/(jobs/batch|leases/.*)$"
checks.negative_data_rejection.enabled = false
checks.positive_data_acceptance.enabled = false
checks.use_after_free.enabled = false
checks.ensure_resource_availability.enabled = false
"""
CHECKS = "lab.fuzz.http_checks"
PATIENCE = 60.0
"""How much longer than it should the fuzzer may take."""


class Target(msgspec.Struct, frozen=True):
    """A server, and what opens it."""

    url: str
    token: str


class Findings(msgspec.Struct, frozen=True):
    """What the fuzzer has to say."""

    is_clean: bool
    text: str

    @property
    def requests(self) -> int:
        """How many requests it says it made up."""
        found = re.search(r"([\d,]+) generated", self.text)
        return 0 if found is None else int(found[1].replace(",", ""))

    @property
    def headline(self) -> str:
        """The first thing that it found."""
        found = re.search(r"^- (.*)$", self.text, re.MULTILINE)
        return "it could not run" if found is None else found[1]


def make_app(url: str) -> App:
    """Return an app, and fill its store, with something of everything that the API is about."""
    app = App(url)
    app.migrate()

    @app.task(queue="sums")
    def add(a: int, b: int = 0) -> int:
        return a + b

    @app.task
    def clean_up() -> None: ...

    @app.event("user.*").on
    def greet(**user: object) -> None: ...

    @app.cron("0 3 * * *", name="nightly")
    def nightly() -> None: ...

    add.submit(1)
    add.submit(2, b=3)
    clean_up.using(delay=3600).submit()
    clean_up.using(key="once").submit().cancel()
    return app


def _soon(value: Duration, **bounds: Any) -> float:
    """Read a duration as the server does, and have it over before long."""
    return min(parse_duration(value, **bounds), WAIT_MAX)


@contextmanager
def fuzzed_server(url: str) -> Iterator[Target]:
    """Serve such an app on loopback, and yield where."""
    with (
        mock.patch.object(claims, "parse_duration", _soon),
        mock.patch.object(jobs, "parse_duration", _soon),
        make_app(url) as app,
        serving(app, ConnectionLimits(), is_local=False) as served,
    ):
        token = app.tokens.create("fuzzer", roles="admin").text
        yield Target(served.server.url, token)


def fuzz(
    target: Target,
    *,
    seed: int,
    examples: int,
    seconds: float | None = None,
    phases: str = "examples,coverage,fuzzing,stateful",
    folder: Path,
) -> Findings:
    """Let the fuzzer at a server; with *seconds*, until they are over."""
    (folder / "schemathesis.toml").write_text(SETTINGS)
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            f"{target.url}/openapi.json",
            "--no-color",
        ),
        *("--no-color", "--url", target.url, "--phases", phases),
        *("--seed", str(seed), "--max-examples", str(examples)),
        *("--generation-database", "none", "--continue-on-failure", "--warnings", "off"),
        # To cancel all jobs of two batches of ten thousand takes its time.
        *("--request-timeout", f"{PATIENCE:g}"),
        *("--exclude-path", "/v1/stream"),  # it goes on for as long as anybody listens
        *("--suppress-health-check", "all", "--header", f"Authorization: Bearer {target.token}"),
    ]
    if seconds is not None:
        command += ["--max-time", str(max(1, round(seconds)))]
    limit = None if seconds is None else seconds + PATIENCE
    root = Path(__file__).parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SCHEMATHESIS_HOOKS": CHECKS}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=limit, env=env
    )
    return Findings(done.returncode == 0, done.stdout + done.stderr)

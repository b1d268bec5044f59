"""The HTTP API under fuzz: schemathesis asks a running server whatever its document allows.

No answer may be a server error, and none may be outside of the document: its status, its headers,
its media type and its body are held against it, and what the document forbids must be refused.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import msgspec

from fencepost import App
from fencepost.http.operations import claims, jobs
from tests.http.serving import serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
"""Not among them: that whatever the document allows is accepted. A schema has no words for some
rules (a job waits for jobs that exist, a name is printable), which a 422 then tells of."""

WAIT_MAX = 0.05
"""A fuzzer that asks to wait for a job is not to be waited for."""
PATIENCE = 60.0
"""How much longer than it should the fuzzer may take."""


class Findings(msgspec.Struct, frozen=True):
    """What the fuzzer has to say."""

    is_clean: bool
    text: str


def make_app(url: str) -> App:
    """Return an app, and fill its store, with something of everything that the API is about."""
    app = App(url)

    @app.task(queue="sums")
    def add(a: int, b: int = 0) -> int:
        return a + b

    @app.task
    def clean_up() -> None: ...

    @app.event("user.*").on
    def greet(user_id: int) -> None: ...

    @app.cron("0 3 * * *", name="nightly")
    def nightly() -> None: ...

    add.submit(1)
    add.submit(2, b=3)
    clean_up.using(delay=3600).submit()
    clean_up.using(key="once").submit().cancel()
    return app


@contextmanager
def fuzzed_server(url: str) -> Iterator[str]:
    """Serve such an app on loopback, and yield where."""
    with (
        mock.patch.object(claims, "HTTP_WAIT_MAX", WAIT_MAX),
        mock.patch.object(jobs, "HTTP_WAIT_MAX", WAIT_MAX),
        make_app(url) as app,
        serving(app) as server,
    ):
        yield server.url


def fuzz(
    url: str,
    *,
    seed: int,
    examples: int,
    seconds: float | None = None,
    phases: str = "examples,coverage,fuzzing,stateful",
    folder: Path,
) -> Findings:
    """Let the fuzzer at the server at *url*; with *seconds*, until they are over."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"),
        *("--url", url, "--checks", ",".join(CHECKS), "--phases", phases),
        *("--seed", str(seed), "--max-examples", str(examples)),
        *("--generation-database", "none", "--continue-on-failure", "--warnings", "off"),
        *("--suppress-health-check", "all"),
    ]
    if seconds is not None:
        command += ["--max-time", str(max(1, round(seconds)))]
    limit = None if seconds is None else seconds + PATIENCE
    done = subprocess.run(  # noqa: S603 - the fuzzer that is installed
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=limit
    )
    return Findings(done.returncode == 0, done.stdout + done.stderr)

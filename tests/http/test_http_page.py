"""The page on the API is right: its errors are those of the code, and its commands work."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.documentation import DOCS, table_rows
from tests.http.sockets import serving

from fencepost import App
from fencepost.core.bounds import CLAIM_MAX
from fencepost.http.request.problems import OWN, codes_of
from fencepost.http.routes import ROUTES
from fencepost.wire import bounds

PAGE = (DOCS / "http.md").read_text()


def test_every_code_is_listed_with_its_status() -> None:
    known = {code for route in ROUTES for code in codes_of(route)} | set(OWN)
    listed = [(int(status), code.strip("`")) for status, code, _ in table_rows(PAGE, "status")]
    assert listed == sorted({(code.status, code.name) for code in known})


def test_every_path_that_is_named_is_there() -> None:
    paths = {route.path for route in ROUTES}
    named = set(re.findall(r"`(?:GET|POST|PUT|PATCH|DELETE) (/\S+)`", PAGE))
    assert named
    assert named <= paths


def test_the_bounds_are_those_of_the_code() -> None:
    listed = {row[0]: row[1] for row in table_rows(PAGE, "of")}
    head = f"{bounds.HTTP_HEAD_MAX:,} bytes, within {bounds.HTTP_HEAD_TIMEOUT:g} s"
    assert listed["first line and headers"] == head
    assert listed["an idle connection"] == f"{bounds.HTTP_IDLE_TIMEOUT} s"
    assert listed["waiting, of `wait` and of claims"] == f"{bounds.HTTP_WAIT_MAX:g} s"
    assert listed["nesting of JSON"] == f"{bounds.JSON_DEPTH_MAX} levels"
    taken = f"{bounds.HTTP_WRITE_TIMEOUT:g} s for each {bounds.HTTP_WRITE_STEP // 1_000} kB"
    assert listed["a client that does not read the reply"] == taken
    most = f"{bounds.HTTP_BATCH_MAX:,}; {CLAIM_MAX:,} claimed"
    assert listed["jobs, nodes of a flow, or leases, in one request"] == most
    assert listed["streams"] == f"{bounds.HTTP_STREAMS_MAX}"
    assert listed["values in one body"].startswith(f"{bounds.JSON_VALUES_MAX:,}, ")
    whole = bounds.HTTP_BODIES_MAX // 1_000_000
    large = int(whole * bounds.HTTP_BODIES_LARGE_SHARE)
    least = bounds.HTTP_BODY_MAX // 1_000
    assert listed["all bodies together that a server holds"] == (
        f"{whole} MB, of which those over {least} kB take {large} MB"
    )
    assert listed["connections"].startswith(f"{bounds.HTTP_CONNECTIONS_MAX:,}, ")
    assert f"less {bounds.HTTP_DESCRIPTORS_KEPT}" in listed["connections"]


def curls() -> list[str]:
    """Return the commands of the page that ask the server, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks).replace("\\\n", " ")
    found = (line.partition("    #")[0].partition("   #")[0] for line in text.splitlines())
    return [line for line in found if line.startswith("curl") and "Bearer" not in line]


def test_the_commands_work_as_they_are_written(tmp_path: Path) -> None:
    """Submit, look, claim, heartbeat and ack, as a reader would type it."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed here")
    with App(f"sqlite:///{tmp_path}/jobs.db") as app, serving(app) as served:

        @app.task
        def add(a: int, b: int) -> int:
            return a + b

        seen = {"ID": "", "TOKEN": ""}
        statuses = []
        for line in curls():
            ready = line.replace("localhost:8000", f"localhost:{served.address[1]}")
            ready = ready.replace("timeout=30s", "timeout=0s")
            ready = ready.replace("curl ", "curl -4 -s -w '\\n%{http_code}' ", 1)
            done = subprocess.run(
                ["bash", "-c", ready], env=seen, capture_output=True, text=True, timeout=30
            )
            body, _, status = done.stdout.rpartition("\n")
            statuses.append(int(status))
            for name, pattern in (("ID", r'"id":"([^"]+)"'), ("TOKEN", r'"token":"([^"]+)"')):
                if match := re.search(pattern, body):
                    seen[name] = match[1]
        # There is no result yet when it is asked for.
        assert statuses == [201, 200, 409, *[200] * 10]
        assert app.jobs.get(seen["ID"]).result() == 3

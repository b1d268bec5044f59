"""`make bench` on Redis reports what it should, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner
from tests.servers.redis import RedisServer, or_skip

from bench.command import bench
from bench.redis import NAMES, suite

TINY = ["--quick", "--jobs", "500", "--backlog", "20", "--json"]
"""As many jobs as weigh more than what the server allocates for itself meanwhile."""
MEASURED = ("submit-many", "drain", "memory")


@pytest.fixture
def own_url() -> Iterator[str]:
    """Return the URL of a server of one's own: its memory is measured, and others free theirs."""
    with or_skip(RedisServer) as server:
        yield server.url


def test_a_run_reports_its_figures_and_leaves_no_keys(tmp_path: Path, own_url: str) -> None:
    only = [word for name in MEASURED for word in ("--only", name)]
    arguments = [*TINY, "--path", str(tmp_path), "--store", own_url, *only]
    done = CliRunner().invoke(bench, arguments)
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failed"] == []
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert figures.keys() == set(MEASURED)
    assert all(figure["value"] > 0 for figure in figures.values())
    assert report["machine"].keys() >= {"cores", "python", "redis", "settings", "round_trip_ms"}
    with redis.Redis.from_url(own_url) as client:
        assert list(client.scan_iter(match="{fencepost-bench-*")) == []
    assert list(tmp_path.iterdir()) == []


def test_names_are_those_of_the_groups() -> None:
    names = [name for group in suite.GROUPS for name in group.names]
    assert sorted(names) == sorted(NAMES)


def test_what_is_not_measured_there_is_refused(redis_url: str) -> None:
    done = CliRunner().invoke(bench, ["--store", redis_url, "--only", "wal"])
    assert done.exit_code == 2
    assert "'wal' is not measured on Redis" in done.output

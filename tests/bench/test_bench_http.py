"""`make bench ARGS=--http` reports what it should. How fast this machine is, no test may ask."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.browser import find_browser
from bench.command import QUICK, bench
from bench.http import NAMES, history, suite
from bench.http.caller import Line, Volley, fire
from bench.http.dashboard import Ids, addresses
from bench.http.search import searches
from bench.progress import StatusLine
from bench.sqlite_bench import SqliteBench
from fencepost import App, State
from fencepost.clock import SystemClock
from fencepost.dashboard.files import read_build

TINY = ["--http", "--quick", "--jobs", "16", "--repeat", "1"]
PAGES = {f"http-page.{each.name}" for each in searches(datetime.now(UTC), 1)}
DASHBOARD = {f"http-dashboard.{name}" for name in addresses(Ids("a", "b"))}
DRAWN = {f"http-dashboard-drawn.{name}" for name in addresses(Ids("a", "b"))}
ROWS = {"http-submit", "http-submit.cpu", "http-batch", *PAGES, *DASHBOARD}
ALL_BUT_DRAWN = [f"--only={name}" for name in NAMES if name != "http-dashboard-drawn"]


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(bench, [*TINY, "--path", str(folder), *arguments])


def check(done: Result, folder: Path) -> None:
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failed"] == []
    assert report["sizes"]["backlog"] == 100
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert figures.keys() == ROWS
    for name, figure in figures.items():
        assert figure["value"] > 0 or name == "http-submit.cpu"
        assert figure["beside"] is not None
        assert (figure["is_met"] is None) == (name == "http-submit.cpu")
    assert list(folder.iterdir()) == [], "a bench leaves nothing behind"


def test_a_run_on_sqlite_reports_every_figure(tmp_path: Path) -> None:
    check(run(tmp_path, "--backlog", "100", "--json", *ALL_BUT_DRAWN), tmp_path)


def test_a_run_on_postgresql_reports_every_figure(tmp_path: Path, postgres_url: str) -> None:
    arguments = ["--backlog", "100", "--json", "--store", postgres_url]
    check(run(tmp_path, *arguments, *ALL_BUT_DRAWN), tmp_path)


def test_a_run_draws_every_page_of_the_dashboard(tmp_path: Path) -> None:
    if read_build() is None or find_browser() is None:
        pytest.skip("there is no Chromium, or nothing to show in it: `make ui browser`")
    arguments = ["--backlog", "100", "--json", "--only", "http-dashboard-drawn"]
    report = json.loads(run(tmp_path, *arguments).stdout)
    assert report["failed"] == []
    assert {figure["name"] for figure in report["figures"]} == DRAWN


def test_the_table_says_by_what_was_served(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "http-submit")
    assert done.exit_code == 0, done.output
    assert "POST /v1/jobs, 16 connections" in done.stdout
    assert "answered after" in done.stdout
    assert "batch" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--http", "--only", "drain"], "not measured on HTTP"),
        (["--only", "http-page"], "not measured on SQLite"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], complaint: str) -> None:
    done = CliRunner().invoke(bench, arguments)
    assert done.exit_code == 2
    assert complaint in done.output


def test_the_names_are_each_measured_by_one_module() -> None:
    measured = [name for group in suite.GROUPS for name in group.names]
    assert measured == list(NAMES)
    assert {name.partition(".")[0] for name in ROWS | DRAWN} == set(NAMES)


# What is kept.


def test_every_search_finds_jobs_that_the_product_would_have_kept(tmp_path: Path) -> None:
    made = SqliteBench(
        tmp_path, sizes=QUICK, durability="process", clock=SystemClock(), progress=StatusLine()
    )
    with made.new_store() as url:
        middle = history.fill(made, url, 2_500)
        with App(url) as app:
            assert app.jobs.count() == 2_500
            assert app.jobs.count(state=State.DEAD_LETTER) == 3
            assert app.jobs.count(created_after=middle) == 1_250
            assert [
                f for f in app.store.run(app.store.overview.inspect()) if f.level == "fail"
            ] == []
            for name, found in _found(app, middle):
                assert (found > 0) == (name != "state-none"), name


def _found(app: App, middle: datetime) -> Iterator[tuple[str, int]]:
    for search in searches(middle, 2_500):
        query: dict[str, Any] = dict(search.query)
        if "tag" in query:
            name, _, value = query.pop("tag").partition(":")
            query["tags"] = {name: value}
        for name in ("created_after", "created_before"):
            if name in query:
                query[name] = datetime.fromisoformat(query[name])
        yield search.name, app.jobs.count(**query)


# The caller.


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_an_answer_may_come_in_parts() -> None:
    with listening() as server:
        line = Line(_volley(server))
        peer, _ = server.accept()
        with peer, line.socket:
            heard = []
            parts = (b"HTTP/1.1 201 Created\r\nContent-", b"Length: 4\r\n\r", b"\nab", b"cd")
            for part in parts:
                peer.sendall(part)
                heard.append(line.hear())
            assert heard == [False, False, False, True]


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 201 Created\r\n\r\n", b""],
)
def test_an_answer_that_was_not_expected_ends_the_measurement(answer: bytes) -> None:
    with listening() as server:
        line = Line(_volley(server))
        peer, _ = server.accept()
        with line.socket:
            peer.sendall(answer)
            peer.close()
            with pytest.raises(ConnectionError):
                line.hear()


def test_nobody_is_asked_where_nobody_listens() -> None:
    with listening() as server:
        volley = _volley(server)
    with pytest.raises(ConnectionError):
        fire(volley, SystemClock())


def _volley(server: socket.socket) -> Volley:
    port = server.getsockname()[1]
    return Volley(port=port, request=b"GET / HTTP/1.1\r\n\r\n", status=201, connections=1, count=1)

"""Clients that are slow, greedy, silent, or gone: none holds a connection for nothing."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cli.support import wait_until
from tests.http.sockets import HASTY, SWEPT, Serving, request, serving

from fencepost import App
from fencepost.http.request import read as reading
from fencepost.http.server.connection import Connection, ConnectionLimits
from fencepost.testing import FakeClock
from fencepost.wire.bounds import HTTP_WRITE_STEP, HTTP_WRITE_TIMEOUT

LIVE = request("GET", "/health/live")
HEAD = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n"
BIG = b"a" * 1_000_000


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """An app with a task, on a file."""
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def add(a: int, b: int = 0) -> int:
            return a + b

        @app.task
        def echo(text: str) -> str:
            return text

        yield app


@pytest.fixture
def hasty(app: App, parser: str) -> Iterator[Serving]:
    """A server with little patience."""
    with serving(app, HASTY) as made:
        yield made


def test_a_head_that_never_ends_is_answered_and_hung_up(hasty: Serving) -> None:
    with hasty.connect() as client:
        client.send(HEAD)
        answer = client.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert answer.headers["connection"] == "close"
        assert client.is_closed()
    hasty.until_quiet()


def test_bytes_that_drip_buy_no_time(hasty: Serving) -> None:
    with hasty.connect() as client:
        client.socket.settimeout(0.02)
        came = b""
        for byte in HEAD + b"x: " + b"y" * 1_000:
            try:
                client.send(bytes([byte]))
                came = client.socket.recv(65_536)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            break
        assert came.startswith(b"HTTP/1.1 408")
    hasty.until_quiet()


def test_who_says_nothing_is_told_nothing(hasty: Serving) -> None:
    with hasty.connect() as client:
        assert client.is_closed()
    hasty.until_quiet()


def test_the_second_request_has_its_own_time(hasty: Serving) -> None:
    with hasty.connect() as client:
        assert client.ask("GET", "/health/live").status == 200
        client.send(b"GET /health/li")
        assert client.answer().status == 408
    hasty.until_quiet()


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["endless", "whole"])
def test_a_head_that_is_too_large_is_refused(served: Serving, end: bytes) -> None:
    with served.connect() as client:
        client.send(HEAD + b"x-much: " + BIG + end)
        answer = client.answer()
        assert (answer.status, answer.code) == (431, "headers_too_large")
    served.until_quiet()


def test_a_head_just_over_the_limit_is_refused_and_one_below_is_not(served: Serving) -> None:
    with served.connect() as client:
        assert client.ask("GET", "/health/live", None, f"x: {'a' * 16_000}").status == 200
        answer = client.ask("GET", "/health/live", None, f"x: {'a' * 16_400}")
        assert (answer.status, answer.code) == (431, "headers_too_large")


def test_a_path_that_is_too_long_is_refused(served: Serving) -> None:
    with served.connect() as client:
        answer = client.ask("GET", f"/v1/jobs/{'a' * 60_000}")
        assert (answer.status, answer.code) == (431, "headers_too_large")


def test_endless_trailers_are_refused(served: Serving) -> None:
    with served.connect() as client:
        start = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        client.send(start + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-much: ")
        for _ in range(10):
            client.send(BIG[:100_000])
        answer = client.answer()
        assert answer.status in (400, 431)
        assert client.is_closed()
    served.until_quiet()


def test_what_is_no_http_is_refused_with_a_problem(served: Serving) -> None:
    with served.connect() as client:
        client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        answer = client.answer()
        assert (answer.status, answer.code) == (400, "invalid_http")
        assert client.is_closed()
    served.until_quiet()


def test_a_body_that_never_comes_is_answered_and_hung_up(
    hasty: Serving, monkeypatch: pytest.MonkeyPatch, app: App
) -> None:
    monkeypatch.setattr(reading, "HTTP_BODY_TIMEOUT", 0.3)
    with hasty.connect() as client:
        job = {"type": "add", "payload": {"a": 1}}
        client.send(request("POST", "/v1/jobs", job)[:-5])
        answer = client.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert client.is_closed()
    hasty.until_quiet()
    assert app.jobs.count() == 0


def test_a_body_that_is_refused_early_still_lets_the_answer_through(served: Serving) -> None:
    with served.connect() as client:
        start = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        client.send(start + b"content-length: 8000000\r\n\r\n")
        for _ in range(8):
            client.send(BIG)
        answer = client.answer()
        assert (answer.status, answer.code) == (413, "payload_too_large")
    served.until_quiet()


def test_a_body_that_drips_after_its_refusal_is_cut_off(hasty: Serving) -> None:
    with hasty.connect() as client:
        start = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        client.send(start + b"content-length: 800000000\r\n\r\n{")
        assert client.answer().status == 413
        assert client.is_closed()
    hasty.until_quiet()


def test_requests_one_behind_the_other_are_answered_in_order(served: Serving, app: App) -> None:
    with served.connect() as client:
        jobs = [{"type": "add", "payload": {"a": number}} for number in range(20)]
        client.send(b"".join(request("POST", "/v1/jobs", job) for job in jobs) + LIVE)
        ids = [client.answer().json["id"] for _ in jobs]
        assert client.answer().json == {"status": "live"}
    assert [app.jobs.get(each).id for each in ids] == ids
    assert len(set(ids)) == app.jobs.count() == 20
    served.until_quiet()


def test_rubbish_behind_a_request_does_not_spoil_its_answer(
    served: Serving, app: App, parser: str
) -> None:
    with served.connect() as client:
        job = {"type": "add", "payload": {"a": 1}}
        client.send(request("POST", "/v1/jobs", job) + b"\x00\x01rubbish\r\n\r\n")
        assert client.answer().status == 201
        if parser == "h11":  # which looks at the rest only then
            assert client.answer().code == "invalid_http"
        assert client.is_closed()
    served.until_quiet()
    assert app.jobs.count() == 1


def test_a_client_that_half_closes_leaves_nothing_behind(served: Serving) -> None:
    for sent in (b"", HEAD, request("POST", "/v1/jobs", {"type": "add", "payload": {"a": 1}})):
        with served.connect() as client:
            client.send(sent)
            client.socket.shutdown(socket.SHUT_WR)
            served.until_quiet()


def test_a_client_that_resets_leaves_nothing_behind(served: Serving) -> None:
    job_id = _submitted(served)
    reset = struct.pack("ii", 1, 0)
    for sent in (b"", HEAD, LIVE, request("GET", f"/v1/jobs/{job_id}/wait?timeout=60")):
        with served.connect() as client:
            client.send(sent)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        served.until_quiet()


def _submitted(served: Serving) -> str:
    with served.connect() as client:
        answer = client.ask("POST", "/v1/jobs", {"type": "add", "payload": {"a": 1}})
        assert answer.status == 201
        job_id: str = answer.json["id"]
        return job_id


def test_one_who_waits_behind_another_request_and_goes_is_noticed(
    served: Serving, app: App
) -> None:
    """A claim whose worker is gone keeps no job, also if more was asked behind it."""
    with served.connect() as client:
        claim = {"worker": "w1", "timeout": "60s", "types": ["add"]}
        client.send(request("POST", "/v1/claims", claim) + LIVE)
    served.until_quiet()
    job_id = _submitted(served)
    with served.connect() as client:
        claim["timeout"] = "10s"
        [job] = client.ask("POST", "/v1/claims", claim).json["jobs"]
        assert (job["id"], job["attempt"]) == (job_id, 1)


def test_an_answer_to_a_client_that_is_gone_is_no_error(
    served: Serving, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """The client has sent two requests at once, and goes while the first is being answered."""
    with served.connect() as client:
        client.send(request("GET", f"/v1/jobs/{_submitted(served)}/wait?timeout=60") + LIVE)
    served.until_quiet()
    app.jobs.cancel(type="add")
    wait_until(lambda: not served.server._gate.tasks, "the end of its request")
    assert "http.error" not in caplog.messages


def test_an_answer_that_nobody_takes_is_thrown_away(hasty: Serving) -> None:
    with hasty.connect() as client:
        text = {"text": "a" * 900_000}
        job = client.ask("POST", "/v1/jobs", {"type": "echo", "payload": text}).json["id"]
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        for _ in range(20):
            client.send(request("GET", f"/v1/jobs/{job}"))
        hasty.until_quiet()


class Untaken:
    """A transport of which only the size of its buffer is asked."""

    def __init__(self) -> None:
        self.size = 0
        self.is_cut = False

    def get_write_buffer_size(self) -> int:
        return self.size

    def is_closing(self) -> bool:
        return True  # a response was written, and the connection is to close behind it

    def abort(self) -> None:
        self.is_cut = True


def watched() -> tuple[Any, Untaken]:
    """Return a connection without a socket, and its transport."""
    bare: Any = type("Bare", (Connection,), {"limits": ConnectionLimits()})
    connection = bare()
    transport = Untaken()
    connection.transport = transport
    connection._untaken, connection._untaken_at = 0, None
    return connection, transport


def test_a_slow_reader_is_borne_with_as_long_as_it_reads() -> None:
    clock = FakeClock()
    connection, transport = watched()
    for size in range(1_000_000, 0, -HTTP_WRITE_STEP):
        transport.size = size
        connection.check_time(clock.monotonic(), is_stopping=False)
        clock.advance(HTTP_WRITE_TIMEOUT)
    assert not transport.is_cut


def test_a_reader_that_takes_too_little_is_cut_off() -> None:
    clock = FakeClock()
    connection, transport = watched()
    for size in (1_000_000, 1_000_000 - HTTP_WRITE_STEP + 1):
        transport.size = size
        connection.check_time(clock.monotonic(), is_stopping=False)
        assert not transport.is_cut
        clock.advance(HTTP_WRITE_TIMEOUT)
    connection.check_time(clock.monotonic(), is_stopping=False)
    assert transport.is_cut


def test_a_thousand_idle_connections_are_held_and_served(app: App, parser: str) -> None:
    with serving(app, replace(SWEPT, head_timeout=60.0)) as served:
        clients = [served.connect() for _ in range(1_000)]
        try:
            assert clients[500].ask("GET", "/health/live").status == 200
            assert clients[-1].ask("GET", "/health/ready").status == 200
        finally:
            for client in clients:
                client.close()
        served.until_quiet()


def test_past_the_most_connections_one_more_is_refused(app: App, parser: str) -> None:
    with serving(app, ConnectionLimits(connections_max=2)) as served:
        first, second = served.connect(), served.connect()
        with served.connect() as third:
            answer = third.answer()
            assert (answer.status, answer.code) == (503, "too_many_connections")
            assert answer.headers["retry-after"] == "1"
            assert third.is_closed()
        assert first.ask("GET", "/health/live").status == 200
        # One that has been answered and is silent makes room.
        with served.connect() as fourth:
            assert fourth.ask("GET", "/health/live").status == 200
        first.close()
        second.close()


def test_no_answer_says_what_software_this_is(served: Serving) -> None:
    with served.connect() as client:
        answer = client.ask("GET", "/health/live")
        assert "server" not in answer.headers
        assert "date" in answer.headers

"""Bytes that are meant to be misread, on real sockets and by both parsers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.http.hostile import (
    CHUNKED,
    DISGUISED,
    DISGUISES,
    HIDDEN,
    HOST,
    JSON,
    REFUSED,
)
from tests.http.sockets import Client, Serving, request, serving

from fencepost import App


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


def everything(client: Client) -> bytes:
    """Return all that comes until the server has closed, which it must."""
    parts = []
    while True:
        try:
            part = client.socket.recv(65_536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def test_a_request_that_can_be_read_in_two_ways_is_refused_and_is_the_last(
    served: Serving,
) -> None:
    for case, sent in REFUSED.items():
        with served.connect() as client:
            client.send(sent + HIDDEN)
            answer = client.answer()
            assert (answer.status, answer.code) == (400, "invalid_http"), case
            assert answer.headers["connection"] == "close", case
            assert client.is_closed(), case
    served.until_quiet()


def test_a_request_hidden_behind_an_answered_one_is_not_answered(served: Serving) -> None:
    """The first is whole and waits in turn; what is wrong comes behind it, and then another."""
    live = request("GET", "/health/live")
    for case, sent in REFUSED.items():
        with served.connect() as client:
            client.send(live + sent + HIDDEN)
            came = everything(client)
            assert came.startswith(b"HTTP/1.1 200"), case
            assert b'"ready"' not in came, case


def test_a_length_and_an_encoding_store_nothing(served: Serving, app: App) -> None:
    """What is hidden is a submission, as an attacker would have it."""
    hidden = request("POST", "/v1/jobs", {"type": "evil"})
    head = b"POST /v1/claims HTTP/1.1\r\n" + HOST + JSON + CHUNKED
    with served.connect() as client:
        client.send(head + b"content-length: %d\r\n\r\n0\r\n\r\n" % (5 + len(hidden)) + hidden)
        assert client.answer().code == "invalid_http"
        assert client.is_closed()
    assert app.jobs.count() == 0


def test_an_upgrade_is_answered_as_if_it_had_not_been_asked_for(served: Serving) -> None:
    with served.connect() as client:
        upgrade = ("connection: upgrade", "upgrade: h2c")
        assert client.ask("GET", "/health/live", None, *upgrade).status == 200
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()


TRAILERS = [
    b"authorization: Bearer %b",
    b"Authorization: bearer %b",
    b"x: 1\r\nauthorization: Bearer %b",
]


def test_a_trailer_is_never_a_header(app: App, parser: str) -> None:
    """A proxy that checks headers looks at no trailer; nor may one overrule a header."""
    token = app.tokens.create("t", roles="admin").text.encode()
    head = b"%b HTTP/1.1\r\n" + HOST + JSON + CHUNKED + b"\r\n"
    with serving(app, is_local=False) as served:
        for trailer in TRAILERS:
            for line, body in ((b"GET /v1/queues", b""), (b"POST /v1/claims", b"2\r\n{}\r\n")):
                with served.connect() as client:
                    # The head alone first: then its answer is under way when the trailer comes.
                    for piece in (head % line, body + b"0\r\n" + trailer % token + b"\r\n\r\n"):
                        client.send(piece)
                    answer = client.answer()
                    assert (answer.status, answer.code) == (401, "unauthenticated"), trailer
                with served.connect() as client:
                    client.send(head % line + body + b"0\r\n" + trailer % token + b"\r\n\r\n")
                    assert client.answer().status == 401, trailer


def test_a_trailer_names_no_request(served: Serving) -> None:
    with served.connect() as client:
        head = b"GET /v1/queues HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n"
        client.send(head + b"0\r\nx-request-id: mine\r\nhost: evil.example\r\n\r\n")
        answer = client.answer()
        assert answer.status == 200
        assert answer.headers["x-request-id"] != "mine"


def test_a_slash_or_control_character_in_disguise_leads_nowhere(served: Serving, app: App) -> None:
    for where in DISGUISED:
        with served.connect() as client:
            for what in DISGUISES:
                path = (where % what).decode()
                for method in ("GET", "POST"):
                    if not path.startswith("/"):
                        continue
                    answer = client.ask(method, path)
                    assert (answer.status, answer.code) == (404, "not_found"), (method, path)
    assert [view.name for view in app.queues.list()] == []


def test_a_path_that_begins_with_a_slash_in_disguise_is_refused(served: Serving) -> None:
    for what in DISGUISES:
        with served.connect() as client:
            answer = client.ask("GET", f"{what.decode()}/health/live")
            assert answer.status in (400, 404), what


RELAYED = [
    "X-Forwarded-For: 203.0.113.7",
    "x-forwarded-for: 127.0.0.1",
    "X-Forwarded-Host: localhost",
    "X-Forwarded-Proto: https",
    "X-Real-IP: 127.0.0.1",
    "Via: 1.1 proxy",
    "Forwarded: for=127.0.0.1",
    "CF-Connecting-IP: 203.0.113.7",
    "True-Client-IP: 203.0.113.7",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
    "Sec-Fetch-Site: ",
    "Origin: http://evil.example",
    "Origin: null",
]


def test_without_a_token_nobody_comes_by_way_of_a_proxy_or_a_page(
    served: Serving, app: App
) -> None:
    with served.connect() as client:
        for header in RELAYED:
            for method, path, body in (
                ("GET", "/v1/queues", None),
                ("POST", "/v1/jobs", {"type": "evil"}),
            ):
                answer = client.ask(method, path, body, header)
                assert (answer.status, answer.code) == (403, "forbidden"), header
            assert client.ask("GET", "/health/live", None, header).status == 200, header
        assert client.ask("GET", "/v1/queues", None, "Sec-Fetch-Site: none").status == 200
        assert client.ask("GET", "/v1/queues", None, "Sec-Fetch-Site: same-origin").status == 200
    assert app.jobs.count() == 0


def test_with_a_token_one_may_come_by_way_of_a_proxy(app: App, parser: str) -> None:
    token = app.tokens.create("t", roles="admin").text
    with serving(app) as served, served.connect() as client:
        for header in RELAYED:
            bearer = f"authorization: Bearer {token}"
            assert client.ask("GET", "/v1/queues", None, header, bearer).status == 200, header

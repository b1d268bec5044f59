"""Bodies that are large, many or never end: others are answered, and memory has a bound."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cli.support import wait_until
from tests.http.sockets import HASTY, SECONDS, Client, Serving, request, serving

from fencepost import App
from fencepost.http import asgi
from fencepost.http.operations import flows
from fencepost.http.operations import submit as submitting
from fencepost.http.request import read as reading
from fencepost.http.request.endpoint import Endpoint
from fencepost.http.request.problems import HttpError
from fencepost.http.request.read import BodyReader
from fencepost.http.server.bodies import Bodies, HeldBytes
from fencepost.testing import FakeClock
from fencepost.wire.bounds import (
    HTTP_BATCH_MAX,
    HTTP_BODIES_LARGE_SHARE,
    HTTP_BODY_MAX,
    HTTP_BODY_STALL,
    HTTP_BODY_STEP,
    JSON_VALUES_MAX,
)

HEAD = (
    "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    "content-length: {size}\r\n\r\n"
)
BUDGET = 4_000_000
LARGE = 1_000_000
ROOM = int(BUDGET * HTTP_BODIES_LARGE_SHARE)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


@pytest.fixture
def narrow(app: App, parser: str) -> Iterator[Serving]:
    """A server that holds few bodies, and waits for nobody in vain."""
    with serving(app, replace(HASTY, bodies_max=BUDGET)) as made:
        yield made


def head(path: str, size: int) -> bytes:
    return HEAD.format(path=path, size=size).encode()


def batch(*payloads: bytes) -> bytes:
    jobs = b",".join(b'{"type":"x","payload":%b}' % payload for payload in payloads)
    return b'{"jobs":[%b]}' % jobs


# One large body.


Held = Callable[[threading.Event, threading.Event], None]


@pytest.mark.parametrize(
    ("place", "name"),
    [(BodyReader, "read"), (submitting, "prepare"), (flows, "prepare_job")],
    ids=["decoding", "preparing a batch", "preparing a flow"],
)
def test_others_are_answered_while_a_large_body_is_worked_on(
    served: Serving, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    """The work goes on until the health of the server has been asked, and answered."""
    begun, go_on = threading.Event(), threading.Event()
    work = getattr(place, name)

    def held_up(*args: Any) -> Any:
        begun.set()
        assert go_on.wait(SECONDS), "nobody was answered meanwhile"
        return work(*args)

    monkeypatch.setattr(place, name, held_up)
    text = "x" * 300_000
    job = {"type": "x", "payload": text}
    path, body = (
        ("/v1/flows", {"nodes": {"a": job}})
        if place is flows
        else ("/v1/jobs/batch", {"jobs": [job]})
    )
    try:
        with served.connect() as client, served.connect() as other:
            client.send(request("POST", path, body))
            assert begun.wait(SECONDS)
            assert other.ask("GET", "/health/live").status == 200
            assert other.ask("GET", "/v1/queues").status == 200
            go_on.set()
            assert client.answer().status == 201
    finally:
        go_on.set()


@pytest.mark.parametrize(
    ("case", "body", "refused"),
    [
        ("values", batch(b"[" + b"{}," * 9_000_000 + b"{}]"), (422, "invalid_payload")),
        ("texts", batch(b"[" + b'"",' * 9_000_000 + b"{}]"), (422, "invalid_payload")),
        ("jobs", b'{"jobs":[' + b"{}," * 400_000 + b"{}]}", (422, "invalid_request")),
        ("nodes", b'{"nodes":{' + b'"a":{},' * 400_000 + b'"b":{}}}', (422, "invalid_request")),
        ("depth", batch(b"[" * 9_000_000), (422, "invalid_payload")),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_body_of_thirty_megabytes_is_refused_by_its_shape(
    served: Serving, app: App, case: str, body: bytes, refused: tuple[int, str]
) -> None:
    with served.connect() as client:
        path = "/v1/flows" if case == "nodes" else "/v1/jobs/batch"
        client.send(head(path, len(body)) + body)
        answer = client.answer()
        assert (answer.status, answer.code) == refused, answer.body
    assert app.jobs.count() == 0
    wait_until(lambda: served.server.api.bodies.held == 0, "nothing is held")


def test_jobs_are_counted_before_they_are_decoded(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("it was decoded")

    for reader in _readers(served):
        for name in ("_decoder", "_many"):
            if getattr(reader, name) is not None:
                monkeypatch.setattr(reader, name, type("Never", (), {"decode": never}))
    item = {"type": "x", "id": "a", "token": "b"}
    many: dict[str, Any] = {
        "/v1/jobs/batch": {"jobs": [item] * (HTTP_BATCH_MAX + 1)},
        "/v1/flows": {"nodes": {f"n{n}": item for n in range(HTTP_BATCH_MAX + 1)}},
        "/v1/leases/ack": {"items": [item] * (HTTP_BATCH_MAX + 1)},
    }
    with served.connect() as client:
        for path, body in many.items():
            answer = client.ask("POST", path, body)
            assert (answer.status, answer.code) == (422, "invalid_request"), path
            assert f"{HTTP_BATCH_MAX:,}" in answer.json["detail"]


def _readers(served: Serving) -> list[Any]:
    direct = served.server._uvicorn.config.app._direct  # type: ignore[union-attr]
    endpoints = [each for each in direct.values() if isinstance(each, Endpoint)]
    return [each._body for each in endpoints if each._body is not None]


def test_a_payload_of_as_many_values_as_are_allowed_is_taken(app: App, parser: str) -> None:
    app.session.max_payload = 16_000_000
    with serving(app) as served, served.connect() as client:
        fitting = b"[" + b"1," * (JSON_VALUES_MAX - 5) + b"1]"
        body = batch(fitting)
        client.send(head("/v1/jobs/batch", len(body)) + body)
        assert client.answer().status == 201
        body = batch(fitting[:-1] + b",1]")
        client.send(head("/v1/jobs/batch", len(body)) + body)
        assert client.answer().code == "invalid_payload"
    assert app.jobs.count() == 1


# Many bodies.


def unfinished(served: Serving, size: int, path: str = "/v1/jobs") -> Client:
    """Return a client that has sent all of a body but its last byte."""
    client = served.connect()
    before = served.server.api.bodies.held
    client.send(head(path, size) + b" " * (size - 1))
    wait_until(lambda: served.server.api.bodies.held == before + size - 1, "the body is counted")
    return client


def test_no_more_bodies_are_held_than_the_server_has_room_for(narrow: Serving, app: App) -> None:
    bodies = narrow.server.api.bodies
    clients = [unfinished(narrow, LARGE) for _ in range(ROOM // LARGE)]
    held = bodies.held
    assert held == ROOM - len(clients)
    with narrow.connect() as client:
        for size in (HTTP_BODY_MAX + 1, LARGE):
            client.send(head("/v1/jobs", size))
            answer = client.answer()
            assert (answer.status, answer.code) == (503, "too_many_bodies")
            assert answer.headers["retry-after"] == "1"
            client.send(b" " * size)  # what was under way is dropped
    with narrow.connect() as client:  # one that announces nothing
        chunk = b"%x\r\n%b\r\n" % (LARGE, b" " * LARGE)
        start = head("/v1/jobs", 0).replace(b"content-length: 0", b"transfer-encoding: chunked")
        client.send(start + chunk)
        assert client.answer().code == "too_many_bodies"
    with narrow.connect() as client:  # a small one finds room all the same
        job = {"type": "x", "payload": "y" * 10_000}
        assert client.ask("POST", "/v1/jobs", job).status == 201
        assert client.ask("POST", "/v1/claims", {"worker": "w"}).status == 200
    assert bodies.held == held
    clients.pop().close()
    wait_until(lambda: bodies.held == held - LARGE + 1, "room is made by one who leaves")
    with narrow.connect() as client:
        answer = client.ask("POST", "/v1/jobs", {"type": "x", "payload": "y" * 500_000})
        assert answer.status == 201
    for client in clients:
        client.close()
    wait_until(lambda: bodies.held == 0, "nothing is held")


def test_every_end_of_a_request_gives_its_bytes_back(
    narrow: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished, refused at any stage, broken off, or too slow: in the end nothing is counted."""
    bodies = narrow.server.api.bodies
    job = {"type": "x", "payload": "y" * 200_000}
    with narrow.connect() as client:
        asked: list[tuple[str, Any, int]] = [
            ("/v1/jobs", job, 201),
            ("/v1/jobs", {**job, "queue": ""}, 422),
            ("/v1/jobs", {**job, "colour": "red"}, 422),
            ("/v1/jobs", {**job, "payload": "y" * 1_100_000}, 413),
            ("/v1/jobs/batch", {"jobs": [job] * 3}, 201),
            ("/v1/events/a.b", {"payload": {"a": "y" * 200_000}}, 202),
            ("/v1/leases/ack", {"id": "a", "token": "b", "result": "y" * 200_000}, 409),
            ("/v1/claims", {"worker": "w", "timeout": 0}, 200),
            ("/v1/queues/default/pause", {}, 200),
            ("/health/live", {}, 405),
        ]
        for path, body, status in asked:
            assert client.ask("POST", path, body).status == status, path
            wait_until(lambda: bodies.held == 0, f"nothing is held of {path}")
        client.send(head("/v1/jobs", 300_000) + b"[" * 300_000)
        assert client.answer().status == 422
        wait_until(lambda: bodies.held == 0, "nothing is held of what is too deep")
    for end in ("close", "reset", "half"):
        client = unfinished(narrow, 300_000)
        if end == "half":
            client.socket.shutdown(socket.SHUT_WR)
            narrow.until_quiet()
        elif end == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        wait_until(lambda: bodies.held == 0, "nothing is held of one who is gone")
    monkeypatch.setattr(reading, "HTTP_BODY_TIMEOUT", 0.2)
    with unfinished(narrow, 300_000) as client:
        assert client.answer().status == 408
        wait_until(lambda: bodies.held == 0, "nothing is held of one who is slow")


def test_a_stopping_server_gives_back_what_never_ended(app: App, parser: str) -> None:
    with serving(app, replace(HASTY, bodies_max=BUDGET), grace=0.1) as served:
        client = unfinished(served, LARGE)
        served.stop()
        assert served.server.api.bodies.held == 0
        client.close()


def test_a_waiting_claim_holds_no_body(narrow: Serving) -> None:
    """Else five hundred of them, padded, would keep everybody's heartbeats out."""
    bodies = narrow.server.api.bodies
    body = json.dumps({"worker": "w", "timeout": 60}).encode().ljust(HTTP_BODY_MAX)
    with narrow.connect() as client:
        client.send(head("/v1/claims", len(body)) + body)
        roll = narrow.server.api.app.workers
        wait_until(lambda: len(roll.list()) == 1, "the claim is waiting")
        assert bodies.held == 0


# Slow ones, by a clock of our own.


async def refused(taking: Callable[[], None]) -> str:
    with pytest.raises(HttpError) as raised:
        taking()
    return raised.value.code


async def test_a_body_that_has_stopped_coming_is_cut_for_one_that_comes() -> None:
    clock = FakeClock()
    bodies = Bodies(BUDGET, clock)
    slow, quick = HeldBytes(bodies), HeldBytes(bodies)

    async def read(held: Any) -> str:
        try:
            async with asyncio.timeout(60) as timeout:
                with held.arriving(timeout):
                    await asyncio.Event().wait()
        except TimeoutError:
            return "cut"
        return "whole"

    tasks = [asyncio.create_task(read(held)) for held in (slow, quick)]
    await asyncio.sleep(0)
    slow.take(ROOM // 2 - HTTP_BODY_STEP)
    quick.take(ROOM // 2 - HTTP_BODY_STEP)
    third = HeldBytes(bodies)
    clock.advance(HTTP_BODY_STALL)
    assert await refused(lambda: third.take(LARGE)) == "too_many_bodies"
    slow.take(HTTP_BODY_STEP - 1)  # drops buy no time
    quick.take(HTTP_BODY_STEP)
    clock.advance(0.1)
    third.take(LARGE)
    assert (slow.is_cut, slow.size, quick.is_cut) == (True, 0, False)
    assert bodies.held == ROOM // 2 + LARGE
    assert await tasks[0] == "cut"
    tasks[1].cancel()
    await asyncio.gather(tasks[1], return_exceptions=True)
    for held in (slow, quick, third, third):
        held.give_back()
    assert bodies.held == 0


async def test_nobody_is_cut_for_what_is_only_announced_nor_when_its_time_is_up() -> None:
    clock = FakeClock()
    bodies = Bodies(BUDGET, clock)
    held = HeldBytes(bodies)
    async with asyncio.timeout(None) as timeout:
        with held.arriving(timeout):
            held.take(ROOM)
            assert await refused(lambda: bodies.check(LARGE)) == "too_many_bodies"
            clock.advance(HTTP_BODY_STALL + 0.1)
            bodies.check(LARGE)
            assert await refused(lambda: bodies.check(ROOM + 1)) == "too_many_bodies"
            assert not held.is_cut
    slow = HeldBytes(bodies)
    held.give_back()

    async def read() -> None:
        async with asyncio.timeout(0) as timeout:
            with slow.arriving(timeout):
                slow.take(ROOM)
                clock.advance(HTTP_BODY_STALL + 0.1)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    held.take(LARGE)
                    raise

    with pytest.raises(TimeoutError):
        await read()
    assert (slow.is_cut, bodies.held) == (True, LARGE)


def test_a_body_that_has_stopped_coming_is_told_so(
    narrow: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.http.server.bodies.HTTP_BODY_STALL", 0.0)
    clients = [unfinished(narrow, LARGE) for _ in range(ROOM // LARGE)]
    with narrow.connect() as client:
        assert client.ask("POST", "/v1/jobs", {"type": "x", "payload": "y" * 200_000}).status == 201
    cut = wait_until(lambda: [each for each in clients if _is_answered(each)], "one is cut")
    assert len(cut) == 1
    answer = cut[0].answer()
    assert (answer.status, answer.code) == (408, "request_timeout")
    assert "its room was needed for others" in answer.json["detail"]
    assert cut[0].is_closed()
    for client in clients:
        client.close()
    wait_until(lambda: narrow.server.api.bodies.held == 0, "nothing is held")


def _is_answered(client: Client) -> bool:
    client.socket.setblocking(False)
    try:
        return bool(client.socket.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        client.socket.settimeout(SECONDS)


def test_small_bodies_fill_what_large_ones_leave() -> None:
    bodies = Bodies(BUDGET, FakeClock())
    large = HeldBytes(bodies)
    small = [HeldBytes(bodies) for _ in range((BUDGET - ROOM) // HTTP_BODY_MAX)]
    large.take(ROOM)
    for held in small:
        held.take(HTTP_BODY_MAX)
    with pytest.raises(HttpError, match="repeat the request"):
        HeldBytes(bodies).take(HTTP_BODY_MAX)
    with pytest.raises(HttpError):
        small[0].take(1)  # which makes a large one of it
    assert bodies.held == ROOM + len(small) * HTTP_BODY_MAX


class Part(bytes):
    """A part of a body that notes when it is let go."""

    alive = 0

    def __new__(cls, data: bytes) -> Part:
        cls.alive += 1
        return super().__new__(cls, data)

    def __del__(self) -> None:
        type(self).alive -= 1


SENT: dict[str, tuple[list[bytes], int]] = {
    "too large": ([b"[" * 300_000] * 20, 413),
    "never finished": ([b'{"type":"x",', b'"payload":{'], 400),
    "no JSON": ([b'{"type":"x",' + b" " * 200_000, b'"payload":{'], 400),
    "another shape": ([b'{"type":3,' + b" " * 200_000, b'"payload":{}}'], 422),
    "taken": ([b'{"type":"x",', b'"payload":{}}'], 201),
}


@pytest.mark.parametrize("what", SENT)
async def test_a_body_is_let_go_with_its_request(app: App, what: str) -> None:
    """Not when the garbage collector comes by: the budget has counted it as gone."""
    sent, status = SENT[what]
    coming: list[Any] = [
        {"type": "http.request", "body": Part(data), "more_body": number < len(sent)}
        for number, data in enumerate(sent, 1)
    ]
    if what == "never finished":
        coming[-1] = {"type": "http.disconnect"}
    replies: list[Any] = []

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        replies.append(message)

    given = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "raw_path": b"/v1/jobs"}
    scope |= {"query_string": b"", "headers": given, "client": ("127.0.0.1", 1)}
    served = asgi(app, is_local=True)
    gc.disable()
    try:
        await served(scope, receive, send)
        assert replies[0]["status"] == status
        coming.clear()
        assert Part.alive == 0
    finally:
        gc.enable()
        Part.alive = 0

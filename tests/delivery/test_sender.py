"""One request to a receiver: what is sent, what its answer means, and that it always ends."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from tests.delivery.receiver import OK, Behave, answering, dripping, receiving, status

from fencepost.clock import SystemClock
from fencepost.core.bounds import WEBHOOK_REPLY_MAX, WEBHOOK_REPLY_TIMEOUT
from fencepost.core.webhooks.callback import Webhooks
from fencepost.delivery.sender import Deadline, Endpoint, Sender, reachable, resolve
from fencepost.errors import PermanentError, TemporaryError
from fencepost.webhooks import new_secret

LOOPBACK = ("127.0.0.0/8", "::1/128")
PUBLIC = (socket.AF_INET, ("93.184.216.34", 443))
PRIVATE = (socket.AF_INET, ("10.0.0.1", 443))


def settings(*networks: str, timeout: float = 5.0) -> Webhooks:
    return Webhooks(new_secret(), allow_http=True, allow_networks=networks, timeout=timeout)


def send(
    url: str,
    *,
    timeout: float = 5.0,
    body: bytes = b"{}",
    networks: Sequence[str] = LOOPBACK,
    resolve: Any = resolve,
) -> int:
    webhooks = settings(*networks, timeout=timeout)
    sender = Sender(webhooks, SystemClock(), resolve)
    return sender.send(webhooks.check(url), {"webhook-id": "m"}, body)


def test_a_webhook_is_posted_with_its_length_and_the_receivers_name() -> None:
    """S1-109."""
    with receiving() as receiver:
        assert send(receiver.url, body=b'{"a":1}') == 200
    (request,) = receiver.requests
    assert request.line == "POST /hook?token=t HTTP/1.1"
    assert request.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "content-length": "7",
        "connection": "close",
        "webhook-id": "m",
    }
    assert request.body == b'{"a":1}'


def test_a_receiver_with_an_ipv6_address_is_reached() -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    with receiving(host="::1") as receiver:
        assert send(receiver.url) == 200
    assert receiver.requests[0].headers["host"] == f"[::1]:{receiver.port}"


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_a_name_is_resolved_and_sent_as_the_host() -> None:
    with receiving() as receiver:
        url = f"http://localhost:{receiver.port}/"
        endpoint = (socket.AF_INET, ("127.0.0.1", receiver.port))
        assert send(url, resolve=lambda host, port: [endpoint]) == 200
    assert receiver.requests[0].headers["host"] == f"localhost:{receiver.port}"


# What the answer means.


@pytest.mark.parametrize("code", [200, 202, 204])
def test_a_receiver_that_takes_it_is_done_with(code: int) -> None:
    with receiving(answering(status(code))) as receiver:
        assert send(receiver.url) == code


def test_an_answer_after_an_interim_one_counts() -> None:
    with receiving(answering(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)) as receiver:
        assert send(receiver.url) == 200


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(code: int) -> None:
    """Else a public host could send us where it cannot go itself."""
    with (
        receiving() as inside,
        receiving(answering(status(code, f"Location: {inside.url}"))) as receiver,
    ):
        with pytest.raises(PermanentError, match="redirects are not followed") as caught:
            send(receiver.url)
        assert caught.value.code == "callback_redirected"
    assert inside.connections == 0
    assert receiver.connections == 1


def test_a_receiver_that_refuses_is_not_asked_again() -> None:
    with receiving(answering(status(410))) as receiver:
        with pytest.raises(PermanentError) as caught:
            send(receiver.url)
        assert caught.value.code == "callback_gone"


def test_a_receiver_that_is_busy_says_when_to_come_again() -> None:
    with receiving(answering(status(503, "Retry-After: 77"))) as receiver:
        with pytest.raises(TemporaryError) as caught:
            send(receiver.url)
        assert caught.value.retry_after == 77.0


def test_errors_show_the_receiver_and_no_secret_of_its_path() -> None:
    with receiving(answering(status(500))) as receiver:
        with pytest.raises(TemporaryError) as caught:
            send(receiver.url)
        assert str(caught.value) == f"http://127.0.0.1:{receiver.port} answered 500"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500 + b"\r\n",
        b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
    ids=["nothing", "another protocol", "no status", "many headers", "long line", "long header"],
)
def test_an_answer_that_is_none_is_temporary(answer: bytes) -> None:
    with receiving(answering(answer)) as receiver, pytest.raises(TemporaryError):
        send(receiver.url)


def test_a_receiver_that_nobody_runs_is_temporary() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TemporaryError, match="ConnectionRefusedError"):
        send(f"http://127.0.0.1:{port}/")


def test_a_receiver_that_says_yes_and_breaks_off_has_said_yes() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nonly this"
    with receiving(answering(broken)) as receiver:
        assert send(receiver.url) == 200


# It always ends.


@pytest.mark.parametrize(
    "behave",
    [
        dripping(b"", b"H"),
        dripping(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", pause=0.1),
        dripping(b"HTTP/1.1 200 OK\r\nx: ", b"y"),
        dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["status", "headers", "header", "interim answers"],
)
def test_an_answer_that_drips_is_not_waited_for_beyond_the_timeout(behave: Behave) -> None:
    """Each drop comes in time; all of them do not."""
    with receiving(behave) as receiver:
        started = time.monotonic()
        with pytest.raises(TemporaryError):
            send(receiver.url, timeout=0.5)
        assert time.monotonic() - started < 3


def test_a_body_that_drips_is_not_waited_for_once_the_status_is_there() -> None:
    with receiving(dripping(b"HTTP/1.1 200 OK\r\n\r\n")) as receiver:
        started = time.monotonic()
        assert send(receiver.url, timeout=20) == 200
        assert WEBHOOK_REPLY_TIMEOUT <= time.monotonic() - started < 8


def test_an_answer_is_read_so_that_the_receiver_sees_the_connection_end_well() -> None:
    ends: list[bytes | OSError] = []

    def behave(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000)
        try:
            ends.append(connection.recv(1))
        except OSError as error:
            ends.append(error)

    with receiving(behave) as receiver:
        assert send(receiver.url) == 200
    assert ends == [b""]


def test_of_a_huge_answer_only_a_part_is_read() -> None:
    taken: list[int] = []

    def behave(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
        taken.append(0)
        while True:
            taken[0] += connection.send(b"x" * 65_536)

    with receiving(behave) as receiver:
        assert send(receiver.url) == 200
    # What was sent beyond it filled the buffers of the system.
    assert WEBHOOK_REPLY_MAX <= taken[0] < 64_000_000


def test_a_receiver_that_reads_nothing_is_not_waited_for_beyond_the_timeout() -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=1)) as deaf:
        started = time.monotonic()
        with pytest.raises(TemporaryError, match=r"TimeoutError|timed out"):
            send(f"http://127.0.0.1:{deaf.getsockname()[1]}/", timeout=0.5, body=b"x" * 20_000_000)
        assert time.monotonic() - started < 3


def test_a_resolver_that_hangs_is_not_waited_for_beyond_the_timeout() -> None:
    hung = threading.Event()

    def hang(host: str, port: int) -> list[Endpoint]:
        hung.wait(30)
        return [PUBLIC]

    with pytest.raises(TemporaryError, match=r"address of slow\.example was not found in time"):
        send("https://slow.example/", timeout=0.2, resolve=hang)
    hung.set()


def test_an_address_that_takes_no_connection_leaves_time_for_the_next() -> None:
    with receiving() as receiver:
        endpoints = [(socket.AF_INET, (f"127.0.0.{n}", receiver.port)) for n in (2, 1)]
        assert send(f"http://h:{receiver.port}/", resolve=lambda *_: endpoints) == 200


# Where it may go.


def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """A name that leads somewhere else when it is asked again is not asked again."""
    with receiving() as meant, receiving() as other:
        answers = [
            [(socket.AF_INET, ("127.0.0.1", meant.port))],
            [(socket.AF_INET, ("127.0.0.1", other.port))],
        ]
        asked: list[str] = []

        def rebinding(host: str, port: int) -> list[Endpoint]:
            asked.append(host)
            return list(answers[min(len(asked), 2) - 1])

        assert send(f"http://rebind.example:{meant.port}/", resolve=rebinding) == 200
    assert asked == ["rebind.example"]
    assert (meant.connections, other.connections) == (1, 0)


def test_a_name_that_turns_private_is_refused_when_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every delivery checks again: a check of yesterday says nothing of today."""
    answers = [[PUBLIC], [PRIVATE]]
    connected: list[Any] = []

    def note(endpoints: Any, deadline: Any) -> Any:
        connected.append(endpoints)
        raise ConnectionRefusedError("noted")

    monkeypatch.setattr("fencepost.delivery.sender.connect", note)
    with pytest.raises(TemporaryError, match="noted"):
        send("https://rebind.example/", resolve=lambda *_: answers.pop(0), networks=())
    with pytest.raises(PermanentError, match=r"resolves to 10\.0\.0\.1") as caught:
        send("https://rebind.example/", resolve=lambda *_: answers.pop(0), networks=())
    assert caught.value.code == "callback_refused"
    assert connected == [[PUBLIC]]


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["93.184.216.34", "10.0.0.1"],
        ["93.184.216.34"] * 3 + ["8.8.8.8", "1.1.1.1", "9.9.9.9", "8.8.4.4", "127.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["::ffff:a9fe:a9fe"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::1"],
        ["2001:0:5ef5:79fb:0:59d:a0ac:1234"],
        ["fe80::1%eth0"],
        ["fd00::1"],
        ["0.0.0.0"],
        ["::"],
    ],
    ids=lambda addresses: addresses[-1],
)
def test_one_address_that_is_not_public_refuses_them_all(addresses: list[str]) -> None:
    webhooks = settings()
    endpoints = [(socket.AF_INET6 if ":" in a else socket.AF_INET, (a, 443)) for a in addresses]
    callback = webhooks.check("https://example.com/")
    deadline = Deadline(SystemClock(), 5)
    with pytest.raises(PermanentError) as caught:
        reachable(callback, webhooks.allow_networks, deadline, lambda *_: endpoints)
    assert caught.value.code == "callback_refused"


def test_loopback_is_refused_unless_it_is_allowed() -> None:
    with receiving() as receiver:
        url = f"http://localhost:{receiver.port}/"
        with pytest.raises(PermanentError, match="allow_networks"):
            send(url, networks=["10.0.0.0/8"])
    assert receiver.connections == 0


def test_a_name_without_an_address_is_temporary() -> None:
    with pytest.raises(TemporaryError, match="has no address"):
        send("https://nowhere.example/", resolve=lambda *_: [])

    def unknown(host: str, port: int) -> list[Endpoint]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(TemporaryError, match="not known"):
        send("https://nowhere.example/", resolve=unknown)

    def unencodable(host: str, port: int) -> list[Endpoint]:
        raise UnicodeError("label too long")

    with pytest.raises(TemporaryError, match="cannot be looked up"):
        send("https://nowhere.example/", resolve=unencodable)


def test_the_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would look names up itself."""
    with receiving() as receiver, receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert send(receiver.url) == 200
    assert proxy.connections == 0


def test_a_receiver_is_tried_at_a_few_addresses_only() -> None:
    endpoints = [(socket.AF_INET, (f"8.8.8.{n}", 443)) for n in range(1, 100)]
    webhooks = settings()
    callback = webhooks.check("https://example.com/")
    found = reachable(callback, (), Deadline(SystemClock(), 5), lambda *_: endpoints)
    assert found == endpoints[:4]


def test_nothing_is_looked_up_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard client would, if it opened the connection itself."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("http.client connected by itself")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    with receiving() as receiver:
        assert send(receiver.url) == 200

"""Over TLS: the receiver proves its name, by a certificate that the system trusts."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
import time
from contextlib import closing

import pytest
from tests.delivery.receiver import Authority, make_authority, receiving

from fencepost.clock import SystemClock
from fencepost.core.webhooks.callback import Webhooks
from fencepost.delivery.sender import Sender
from fencepost.errors import TemporaryError
from fencepost.webhooks import new_secret

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"), "DNS:hooks.example,IP:127.0.0.1")


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The authority, trusted by this process: how a private one is added in production too."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    return authority


def send(host: str, port: int, timeout: float = 5.0) -> int:
    webhooks = Webhooks(new_secret(), allow_networks=["127.0.0.0/8"], timeout=timeout)
    endpoint = (socket.AF_INET, ("127.0.0.1", port))
    sender = Sender(webhooks, SystemClock(), lambda *_: [endpoint])
    return sender.send(webhooks.check(f"https://{host}:{port}/hook"), {}, b"{}")


def test_the_authority_passes_the_strictest_check_of_any_python(authority: Authority) -> None:
    """Python 3.13 checks so by default, so these tests would fail there alone."""
    strict = ssl.create_default_context(cafile=str(authority.certificate))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    with receiving(tls=authority.server) as receiver:
        plain = socket.create_connection(("127.0.0.1", receiver.port), timeout=5)
        with plain, strict.wrap_socket(plain, server_hostname="hooks.example") as encrypted:
            assert encrypted.version() is not None


@pytest.mark.parametrize("host", ["hooks.example", "HOOKS.example.", "127.0.0.1"])
def test_a_receiver_that_proves_its_name_is_sent_to(trusted: Authority, host: str) -> None:
    with receiving(tls=trusted.server) as receiver:
        assert send(host, receiver.port) == 200
    assert receiver.requests[0].line == "POST /hook HTTP/1.1"


def test_the_name_is_asked_for_although_the_address_is_connected_to(trusted: Authority) -> None:
    """SNI: a receiver of many names would show another certificate."""
    asked: list[str | None] = []
    trusted.server.sni_callback = lambda _, name, __: asked.append(name)
    try:
        with receiving(tls=trusted.server) as receiver:
            send("hooks.example", receiver.port)
    finally:
        trusted.server.sni_callback = None
    assert asked == ["hooks.example"]


def test_a_certificate_of_another_name_is_refused_before_anything_is_sent(
    trusted: Authority,
) -> None:
    with receiving(tls=trusted.server) as receiver:
        with pytest.raises(TemporaryError, match="certificate verify failed") as caught:
            send("other.example", receiver.port)
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert receiver.requests == []


def test_a_certificate_that_nobody_trusts_is_refused_before_anything_is_sent(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with receiving(tls=authority.server) as receiver:
        with pytest.raises(TemporaryError, match="certificate verify failed"):
            send("hooks.example", receiver.port)
        assert receiver.requests == []


def test_a_receiver_that_does_not_speak_tls_is_temporary(trusted: Authority) -> None:
    with receiving() as receiver, pytest.raises(TemporaryError, match="SSL"):
        send("hooks.example", receiver.port)


def test_a_receiver_that_does_not_finish_the_handshake_is_not_waited_for(
    trusted: Authority,
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        started = time.monotonic()
        with pytest.raises(TemporaryError, match="timed out"):
            send("hooks.example", deaf.getsockname()[1], timeout=0.5)
        assert time.monotonic() - started < 3


def test_a_handshake_that_drips_is_not_waited_for_beyond_the_timeout(trusted: Authority) -> None:
    """The header of a record that never comes whole."""
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"\x16\x03\x03\x40\x00")
            try:
                while not stop.wait(0.05):
                    connection.sendall(b"\x02")
            except OSError:
                return

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        started = time.monotonic()
        with pytest.raises(TemporaryError):
            send("hooks.example", listener.getsockname()[1], timeout=0.5)
        assert time.monotonic() - started < 3
        stop.set()
        thread.join(5)

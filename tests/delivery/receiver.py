"""Receivers of webhooks on this machine, well-behaved and otherwise."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Behave = Callable[[socket.socket], object]
"""Given a connection whose request was read: answers as it likes."""


@dataclass
class Request:
    """What was received."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A server that notes what it receives."""

    port: int
    host: str = "127.0.0.1"
    scheme: str = "http"
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    errors: list[Exception] = field(default_factory=list)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/hook?token=t"


def answering(*answers: bytes) -> Behave:
    """Answer each request with the next of *answers*, and the last one for ever."""
    left = list(answers)
    return lambda connection: connection.sendall(left.pop(0) if len(left) > 1 else left[0])


def status(code: int, *headers: str) -> bytes:
    """Return an answer of this status, with these headers."""
    lines = [f"HTTP/1.1 {code} Whatever", "Content-Length: 0", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def dripping(first: bytes, drop: bytes = b"x", pause: float = 0.05) -> Behave:
    """Answer with *first* and then a drop at a time, until nobody listens any more."""

    def behave(connection: socket.socket) -> None:
        connection.sendall(first)
        stop = threading.Event()
        while not stop.wait(pause):
            connection.sendall(drop)

    return behave


@contextmanager
def receiving(
    behave: Behave | None = None, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """Run a receiver for as long as the block lasts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        receiver = Receiver(port, host, "http" if tls is None else "https")
        arguments = (listener, receiver, behave or answering(OK), tls)
        thread = threading.Thread(target=_serve, args=arguments, daemon=True)
        thread.start()
        yield receiver
        # Closing a listener does not wake who waits for it.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _serve(
    listener: socket.socket, receiver: Receiver, behave: Behave, tls: ssl.SSLContext | None
) -> None:
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        receiver.connections += 1
        with plain:
            plain.settimeout(10)
            try:
                connection = plain if tls is None else tls.wrap_socket(plain, server_side=True)
            except OSError as error:
                receiver.errors.append(error)
                continue
            with connection, suppress(OSError):
                receiver.requests.append(_read(connection))
                behave(connection)


def _read(connection: socket.socket) -> Request:
    with connection.makefile("rb") as file:
        line = file.readline().decode("latin-1").strip()
        headers: dict[str, str] = {}
        while (header := file.readline().strip()) and b":" in header:
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = file.read(int(headers.get("content-length", 0)))
    return Request(line, headers, body)


@dataclass
class Authority:
    """A certificate authority that was made for one test."""

    certificate: Path
    server: ssl.SSLContext


ROOT = """\
[req]
distinguished_name = subject
[subject]
[root]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
"""
LEAF = """\
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
subjectAltName = {names}
"""


def make_authority(folder: Path, names: str) -> Authority:
    """Make an authority, and a server's certificate for *names* such as ``DNS:localhost``.

    Both say all that RFC 5280 asks of them: from Python 3.13 on, a default context looks
    (``VERIFY_X509_STRICT``). What the system's ``openssl.cnf`` would add is left out.
    """
    key, request, certificate = folder / "key.pem", folder / "request.pem", folder / "cert.pem"
    root_key, root = folder / "root-key.pem", folder / "root.pem"
    config, leaf = folder / "root.cnf", folder / "leaf.cnf"
    config.write_text(ROOT)
    leaf.write_text(LEAF.format(names=names))
    new = ["-config", config, "-newkey", "rsa:2048", "-nodes"]
    as_root = ["-x509", "-extensions", "root", "-days", 30, "-subj", "/CN=Test root"]
    _openssl("req", *new, *as_root, "-keyout", root_key, "-out", root)
    _openssl("req", *new, "-keyout", key, "-out", request, "-subj", "/CN=Test receiver")
    by_root = ["-CA", root, "-CAkey", root_key, "-CAcreateserial", "-extfile", leaf, "-days", 30]
    _openssl("x509", "-req", "-in", request, "-out", certificate, *by_root)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return Authority(root, server)


def _openssl(*arguments: object) -> None:
    words = ["openssl", *(str(argument) for argument in arguments)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)

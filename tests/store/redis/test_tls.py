"""rediss:// encrypts, and checks who the server is (Redis only)."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.servers.child import ServerFailedError
from tests.servers.redis import USUAL, RedisServer, or_skip

from fencepost import StoreUnavailableError
from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import Enqueued
from fencepost.store.open import open_store


def write_certificate(folder: Path, host: str) -> None:
    """Write a certificate for *host* that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fencepost-test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "tls.key").write_bytes(key.private_bytes(pem, *plain))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = or_skip(RedisServer, USUAL)
    write_certificate(made.folder, "127.0.0.1")
    for name in ("tls.crt", "tls.key"):
        made.own(made.folder / name)
    made.settings |= {
        "port": "0",
        "tls-port": str(made.port),
        "tls-cert-file": str(made.folder / "tls.crt"),
        "tls-key-file": str(made.folder / "tls.key"),
        "tls-ca-cert-file": str(made.folder / "tls.crt"),
        "tls-auth-clients": "optional",
    }
    try:
        made.start()
    except ServerFailedError as error:
        made.discard()
        pytest.skip(f"this Redis has no TLS ({error})")
    yield made
    made.discard()


def test_a_known_authority_is_trusted(server: RedisServer) -> None:
    folder = server.folder
    files = f"ssl_ca_certs={folder}/tls.crt&ssl_certfile={folder}/tls.crt"
    store = open_store(f"rediss://127.0.0.1:{server.port}/0?{files}&ssl_keyfile={folder}/tls.key")
    (reply,) = store.run(store.queue.enqueue([NewJob(type="t")]))
    assert isinstance(reply, Enqueued)
    (reply,) = asyncio.run(store.run_async(store.queue.enqueue([NewJob(type="t")])))
    assert isinstance(reply, Enqueued)
    store.close()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("rediss://127.0.0.1:PORT", "name the authority of the server's certificate"),
        ("rediss://localhost:PORT?ssl_ca_certs=FILE", "certificate"),
        ("redis://127.0.0.1:PORT", "if it wants TLS, write rediss://"),
    ],
)
def test_what_is_not_safe_is_refused(server: RedisServer, url: str, text: str) -> None:
    """An unknown authority, another host than the certificate's, and no encryption at all."""
    url = url.replace("PORT", str(server.port)).replace("FILE", str(server.folder / "tls.crt"))
    store = open_store(url)
    with pytest.raises(StoreUnavailableError) as found:
        store.run(store.queue.enqueue([NewJob(type="t")]))
    assert text in str(found.value)
    store.close()

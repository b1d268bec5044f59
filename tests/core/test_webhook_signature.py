"""Signatures by the Standard Webhooks scheme."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.webhooks.signature import (
    check_signature,
    make_secret,
    parse_secrets,
    sign,
    signed_headers,
)
from fencepost.errors import ConfigurationError, WebhookVerificationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))
OTHER = bytes(range(32))

keys = st.binary(min_size=24, max_size=64)


def hmac_by_hand(key: bytes, message: bytes) -> bytes:
    """As RFC 2104 defines it."""
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in padded) + message).digest()
    return hashlib.sha256(bytes(b ^ 0x5C for b in padded) + inner).digest()


@pytest.mark.parametrize(
    ("key", "id", "timestamp", "body", "signature"),
    [
        (
            *(KEY, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            *(OTHER, "0b5e7a52-2f3a-4c49-9f0e-5a6c1b7d8e90", 1767225600),
            '{"type":"job.completed","data":{"name":"Zoë"}}'.encode(),
            "v1,CaasLIkq/c+20ekwvrsKV3aiFzjT/rgYz5SKuRn1hfk=",
        ),
    ],
)
def test_a_signature_is_the_one_that_openssl_makes(
    key: bytes, id: str, timestamp: int, body: bytes, signature: str
) -> None:
    """Made by `openssl dgst -sha256 -mac HMAC`, of what the scheme says is signed."""
    assert sign(key, id=id, timestamp=timestamp, body=body) == signature


@given(keys, st.uuids().map(str), st.integers(0, 2**33), st.binary(max_size=200))
def test_a_signature_is_the_hmac_of_id_time_and_body(
    key: bytes, id: str, timestamp: int, body: bytes
) -> None:
    digest = hmac_by_hand(key, f"{id}.{timestamp}.".encode() + body)
    expected = "v1," + base64.b64encode(digest).decode()
    assert sign(key, id=id, timestamp=timestamp, body=body) == expected


@given(st.lists(keys, min_size=1, max_size=4, unique=True), st.data())
def test_each_of_several_secrets_signs_so_that_one_can_replace_another(
    sending: list[bytes], data: st.DataObject
) -> None:
    headers = signed_headers(sending, id="m", timestamp=100, body=b"{}")
    known = data.draw(st.sampled_from(sending))
    check_signature([known], headers, b"{}", now=100, tolerance=0)
    check_signature([OTHER, known], headers, b"{}", now=100, tolerance=0)


def test_a_receiver_of_a_secret_that_was_never_given_refuses() -> None:
    headers = signed_headers([KEY], id="m", timestamp=100, body=b"{}")
    with pytest.raises(WebhookVerificationError, match="no signature matches your secrets"):
        check_signature([OTHER], headers, b"{}", now=100, tolerance=300)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-id", "n"),
        ("webhook-timestamp", "101"),
        ("webhook-timestamp", "0100"),
        ("webhook-signature", "v1,"),
        ("webhook-signature", "v1"),
        ("webhook-signature", "v2," + "A" * 43 + "="),
        ("webhook-signature", "v1,\ufffd"),
        ("webhook-signature", ""),
        ("webhook-id", ""),
        ("webhook-timestamp", "-100"),
        ("webhook-timestamp", "1e2"),
        ("webhook-timestamp", "9" * 6_000),
        ("webhook-timestamp", "\u0661"),
        ("webhook-id", "x" * 5_000),
    ],
)
def test_a_header_that_was_changed_is_refused(name: str, value: str) -> None:
    headers = {**signed_headers([KEY], id="m", timestamp=100, body=b"{}"), name: value}
    with pytest.raises(WebhookVerificationError):
        check_signature([KEY], headers, b"{}", now=100, tolerance=300)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_is_named(name: str) -> None:
    headers = signed_headers([KEY], id="m", timestamp=100, body=b"{}")
    del headers[name]
    with pytest.raises(WebhookVerificationError, match=f"no header {name}"):
        check_signature([KEY], headers, b"{}", now=100, tolerance=300)


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_a_body_that_was_changed_is_refused(sent: bytes, received: bytes) -> None:
    headers = signed_headers([KEY], id="m", timestamp=100, body=sent)
    if sent == received:
        check_signature([KEY], headers, received, now=100, tolerance=300)
        return
    with pytest.raises(WebhookVerificationError):
        check_signature([KEY], headers, received, now=100, tolerance=300)


@pytest.mark.parametrize(("now", "is_taken"), [(100, True), (400, True), (400.001, False)])
@pytest.mark.parametrize("side", [1, -1])
def test_a_webhook_is_taken_within_the_tolerance_on_either_side(
    now: float, is_taken: bool, side: int
) -> None:
    headers = signed_headers([KEY], id="m", timestamp=1_000, body=b"{}")
    moment = 1_000 + side * (now - 100)
    if is_taken:
        check_signature([KEY], headers, b"{}", now=moment, tolerance=300)
        return
    with pytest.raises(WebhookVerificationError, match=r"300 s (before|after) now"):
        check_signature([KEY], headers, b"{}", now=moment, tolerance=300)


@given(keys)
def test_a_secret_is_read_as_it_was_made(key: bytes) -> None:
    assert parse_secrets(make_secret(key)) == (key,)
    assert parse_secrets([f" {make_secret(key)}\n", SECRET]) == (key, KEY)


@pytest.mark.parametrize(
    "values",
    [
        *([], None, 7, b"whsec_", {SECRET: 1}, [None], [7], [""], ["whsec_"], ["hunter2hunter2"]),
        *([SECRET] * 11, [SECRET.removeprefix("whsec_")], ["whsec_hunter2!"], ["whsec_é"]),
        *(["whsec_" + base64.b64encode(b"hunter2" * n).decode()] for n in (3, 10)),
        ["whsec_\udcff"],
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(values: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_secrets(values)
    message = str(caught.value)
    assert "secret" in message
    assert "hunter2" not in message
    assert SECRET not in message
    assert base64.b64encode(b"hunter2").decode()[:8] not in message

"""Signatures of webhooks by the Standard Webhooks scheme, made and verified.

A secret is ``whsec_`` and the base64 of 24 to 64 random bytes. HMAC-SHA256 signs the id, the time
and the body. Every secret signs: while one is replaced by another, receivers may know either.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence

from fencepost.core.bounds import (
    WEBHOOK_HEADER_LENGTH_MAX,
    WEBHOOK_SECRET_BYTES_MAX,
    WEBHOOK_SECRET_BYTES_MIN,
    WEBHOOK_SECRETS_MAX,
)
from fencepost.errors import ConfigurationError, WebhookVerificationError

PREFIX = "whsec_"
VERSION = "v1"
ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"

_TIMESTAMP_DIGITS_MAX = 12


def make_secret(randomness: bytes) -> str:
    """Return random bytes as a secret."""
    assert WEBHOOK_SECRET_BYTES_MIN <= len(randomness) <= WEBHOOK_SECRET_BYTES_MAX
    return PREFIX + base64.b64encode(randomness).decode()


def parse_secrets(values: object) -> tuple[bytes, ...]:
    """Return the keys in one or several secrets, or raise ConfigurationError, which shows none."""
    given = [values] if isinstance(values, str) else values
    if not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping)):
        raise ConfigurationError(
            f'webhook secrets must be a list of text such as "{PREFIX}…", not '
            f"{type(values).__name__}"
        )
    listed = list(given)
    if not 1 <= len(listed) <= WEBHOOK_SECRETS_MAX:
        raise ConfigurationError(
            f"give 1 to {WEBHOOK_SECRETS_MAX} webhook secrets, got {len(listed)}; "
            f"`fencepost webhooks secret` prints a fresh one"
        )
    return tuple(_parse_secret(value, number) for number, value in enumerate(listed, 1))


def _parse_secret(value: object, number: int) -> bytes:
    text = value.strip() if isinstance(value, str) else ""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX).encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        key = b""
    is_prefixed = text.startswith(PREFIX)
    if not is_prefixed or not WEBHOOK_SECRET_BYTES_MIN <= len(key) <= WEBHOOK_SECRET_BYTES_MAX:
        raise ConfigurationError(
            f"webhook secret number {number} is invalid: it must be {PREFIX} and the base64 of "
            f"{WEBHOOK_SECRET_BYTES_MIN} to {WEBHOOK_SECRET_BYTES_MAX} bytes; "
            f"`fencepost webhooks secret` prints a fresh one"
        )
    return key


def sign(key: bytes, *, id: str, timestamp: int | str, body: bytes) -> str:
    """Return the signature of one webhook by one key."""
    signed = b".".join((id.encode(), str(timestamp).encode(), body))
    digest = hmac.digest(key, signed, hashlib.sha256)
    return f"{VERSION},{base64.b64encode(digest).decode()}"


def signed_headers(
    keys: Sequence[bytes], *, id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the three headers that go with *body*, signed by every key."""
    signatures = [sign(key, id=id, timestamp=timestamp, body=body) for key in keys]
    return {
        ID_HEADER: id,
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: " ".join(signatures),
    }


def check_signature(
    keys: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float,
    tolerance: float,
) -> None:
    """Raise WebhookVerificationError unless one of *keys* signed *body* recently."""
    id, written, signatures = _read(headers)
    is_number = written.isascii() and written.isdecimal() and len(written) <= _TIMESTAMP_DIGITS_MAX
    if not is_number:
        raise WebhookVerificationError(f"{TIMESTAMP_HEADER} is not a time in seconds since 1970")
    given = [each.encode() for each in signatures.split(" ")]
    is_known = False
    # All are compared, in constant time, so that timing reveals nothing.
    for key in keys:
        expected = sign(key, id=id, timestamp=written, body=body).encode()
        for signature in given:
            is_known |= hmac.compare_digest(expected, signature)
    if not is_known:
        raise WebhookVerificationError(
            "no signature matches your secrets; compare them with the sender's, and verify the "
            "body exactly as it was received"
        )
    timestamp = int(written)
    if abs(now - timestamp) > tolerance:
        raise WebhookVerificationError(
            f"it was sent {abs(now - timestamp):.0f} s {'before' if timestamp < now else 'after'} "
            f"now; {tolerance:g} s are tolerated; it may be a replay, or a clock is wrong"
        )


def _read(headers: Mapping[str, str]) -> tuple[str, str, str]:
    lowered = {name.lower(): value for name, value in headers.items() if isinstance(name, str)}
    values = []
    for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER):
        value = lowered.get(name)
        if not isinstance(value, str) or not value:
            raise WebhookVerificationError(f"there is no header {name}: not a webhook of Fencepost")
        if len(value) > WEBHOOK_HEADER_LENGTH_MAX or not value.isascii():
            raise WebhookVerificationError(f"the header {name} is too long, or not plain ASCII")
        values.append(value)
    return values[0], values[1], values[2]

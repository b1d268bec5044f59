"""Webhooks: the settings of an app that sends them, and what a receiver needs.

    from fencepost.webhooks import verify

    event = verify(SECRETS, request.headers, request.body)

Other languages have libraries for the same scheme, Standard Webhooks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from fencepost.clock import Clock, SystemClock
from fencepost.core.bounds import WEBHOOK_TOLERANCE
from fencepost.core.values.times import Duration, parse_duration
from fencepost.core.webhooks.callback import Webhooks
from fencepost.core.webhooks.signature import (
    check_signature,
    make_secret,
    parse_secrets,
    signed_headers,
)
from fencepost.errors import WebhookVerificationError

__all__ = ["WebhookVerificationError", "Webhooks", "new_secret", "sign", "verify"]


def verify(
    secrets: str | Iterable[str],
    headers: Mapping[str, str],
    body: bytes | str,
    tolerance: Duration = WEBHOOK_TOLERANCE,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Return a webhook, or raise WebhookVerificationError if it may be forged or old.

    *body* is the body exactly as received. During a rotation give several *secrets*; one has to
    match. The same webhook may arrive twice, with the same ``webhook-id``.
    """
    raw = _raw(body)
    check_signature(
        parse_secrets(secrets),
        headers,
        raw,
        now=_seconds(now),
        tolerance=parse_duration(tolerance, name="tolerance"),
    )
    try:
        event = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise WebhookVerificationError("the signature is valid, but the body is not a JSON object")
    return event


def sign(
    secrets: str | Iterable[str], body: bytes | str, *, id: str, now: datetime | None = None
) -> dict[str, str]:
    """Return the headers of a webhook with this *body*; for tests of a receiver."""
    keys = parse_secrets(secrets)
    return signed_headers(keys, id=id, timestamp=int(_seconds(now)), body=_raw(body))


def new_secret(clock: Clock | None = None) -> str:
    """Return a fresh secret, for ``Webhooks`` and for receivers."""
    # Ids have fixed bits; after the digest every bit is random.
    randomness = b"".join((clock or SystemClock()).new_ids(4))
    return make_secret(hashlib.sha256(randomness).digest())


def _raw(body: bytes | str) -> bytes:
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)


def _seconds(now: datetime | None) -> float:
    return (SystemClock().now() if now is None else now).timestamp()

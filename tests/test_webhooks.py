"""What a receiver of webhooks calls."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fencepost.core.webhooks.signature import parse_secrets, signed_headers
from fencepost.errors import ConfigurationError, FencepostError, InvalidDurationError
from fencepost.testing import FakeClock
from fencepost.webhooks import WebhookVerificationError, new_secret, sign, verify

SECRET = new_secret()
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BODY = '{"type":"job.completed","data":{"name":"Zoë"}}'


def headers(body: bytes = BODY.encode(), secret: str = SECRET, at: datetime = NOON) -> Any:
    keys = parse_secrets(secret)
    return signed_headers(keys, id="m", timestamp=int(at.timestamp()), body=body)


@pytest.mark.parametrize("body", [BODY.encode(), BODY, bytearray(BODY.encode())])
def test_a_webhook_is_read_once_it_is_verified(body: Any) -> None:
    """S1-109."""
    event = verify(SECRET, headers(), body, now=NOON)
    assert event == {"type": "job.completed", "data": {"name": "Zoë"}}


def test_header_names_are_read_in_any_case() -> None:
    titled = {name.title(): value for name, value in headers().items()}
    assert verify([SECRET], titled, BODY, now=NOON)


def test_any_of_several_secrets_is_enough_on_either_side() -> None:
    """While one replaces the other, each side may know one, or both."""
    old, new = new_secret(), new_secret()
    both = {**headers(secret=old)}
    both["webhook-signature"] += " " + headers(secret=new)["webhook-signature"]
    assert verify(old, both, BODY, now=NOON)
    assert verify(new, both, BODY, now=NOON)
    assert verify([new, old], headers(secret=old), BODY, now=NOON)
    with pytest.raises(WebhookVerificationError):
        verify(new, headers(secret=old), BODY, now=NOON)


def test_a_signature_of_a_version_to_come_is_passed_over() -> None:
    known = headers()
    known["webhook-signature"] = f"v1a,abc v2,{'x' * 300} {known['webhook-signature']}"
    assert verify(SECRET, known, BODY, now=NOON)


def test_an_old_webhook_is_refused_unless_more_is_tolerated() -> None:
    late = NOON + timedelta(minutes=6)
    with pytest.raises(WebhookVerificationError, match="360 s before now; 300 s"):
        verify(SECRET, headers(), BODY, now=late)
    assert verify(SECRET, headers(), BODY, tolerance="10m", now=late)
    with pytest.raises(InvalidDurationError):
        verify(SECRET, headers(), BODY, tolerance=-1)


def test_the_present_is_now_unless_told() -> None:
    assert verify(SECRET, headers(at=datetime.now(UTC)), BODY)
    with pytest.raises(WebhookVerificationError):
        verify(SECRET, headers(at=datetime.now(UTC) - timedelta(hours=1)), BODY)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'"\xff"', b"[" * 6_000])
def test_a_signed_body_that_says_nothing_is_refused(body: bytes) -> None:
    with pytest.raises(WebhookVerificationError, match="not a JSON object"):
        verify(SECRET, headers(body), body, now=NOON)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(WebhookVerificationError):
        verify(SECRET, headers(), "\ud800", now=NOON)


def test_a_forger_learns_no_secret_from_the_refusal() -> None:
    with pytest.raises(WebhookVerificationError) as caught:
        verify(SECRET, headers(secret=new_secret()), BODY, now=NOON)
    assert isinstance(caught.value, FencepostError)
    assert caught.value.code == "webhook_verification"
    assert SECRET not in str(caught.value)


def test_a_receiver_can_be_tested_with_webhooks_of_its_own() -> None:
    made = sign([SECRET, new_secret()], BODY, id="m")
    assert verify(SECRET, made, BODY)
    assert sign(SECRET, BODY, id="m", now=NOON) == headers()


def test_a_receiver_without_a_secret_is_told_so() -> None:
    """An empty list must not mean that everything is taken."""
    with pytest.raises(ConfigurationError):
        verify([], headers(), BODY, now=NOON)


def test_a_fresh_secret_is_like_no_other() -> None:
    made = {new_secret() for _ in range(50)}
    assert len(made) == 50
    for secret in made:
        assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert new_secret(FakeClock()) == new_secret(FakeClock()), "by the clock's chance, it replays"

"""Envelopes and keys: what is parsed before and during decryption."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from fencepost.core.bounds import PLAIN_DAYS_MAX
from fencepost.core.encryption import (
    EncryptionKey,
    Envelope,
    Field,
    KeyRing,
    Owner,
    Plain,
    from_text,
    pack,
    parse,
    parse_key,
    parse_keys,
    parse_plain,
    to_text,
)
from fencepost.core.job.job import Body, Encoding
from fencepost.core.values.payload import decode
from fencepost.errors import ConfigurationError, EncryptionError
from fencepost.store.wrappers.encrypted.encrypt import Cipher
from fencepost.testing.clock import FakeClock
from lab.fuzz.inputs import bent, bent_bytes, objects
from lab.fuzz.target import Target

OWNER = Owner("7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11", "mail")
RING = KeyRing((EncryptionKey("k1", b"1" * 32),))
CIPHER = Cipher(RING, FakeClock())
PLAIN = b'j{"to":"ann@example.com"}'
SECRET = base64.b64encode(b"sixteen secrets.sixteen secrets.").decode()

NOW = datetime(2026, 11, 16, tzinfo=UTC)

key_ids = st.text("abcXYZ019._-", min_size=1, max_size=64).map(lambda text: f"k{text}"[:64])
packed = st.builds(
    Envelope, key_ids, st.binary(min_size=12, max_size=12), st.binary(min_size=16, max_size=60)
).map(pack)
sealed = st.builds(lambda _: CIPHER.seal(PLAIN, Field.PAYLOAD, OWNER), st.integers(0, 9))
key_texts = st.builds(lambda id_, digits: f"{id_}:{digits}", key_ids, st.just(SECRET))


def _check_envelope(given: bytes, envelope: Envelope | None) -> None:
    assert envelope is None or pack(envelope) == given


def _check_text(_: str, data: bytes | None) -> None:
    assert data is None or parse(data) is not None


def _check_opened(_: bytes, opened: bytes) -> None:
    assert opened == PLAIN, "a forged envelope was opened"


def _check_ring(_: Any, ring: KeyRing) -> None:
    assert parse_keys(",".join(key.text for key in ring.keys)) == ring


def _check_plain(_: Any, plain: Plain) -> None:
    assert not plain.accepts(NOW + timedelta(days=PLAIN_DAYS_MAX + 1)), "accepted for ever"


def _secret_in(given: Any) -> str | None:
    return SECRET if isinstance(given, str) and SECRET in given else None


ENCRYPTION_TARGETS = (
    Target("envelope", parse, bent_bytes(packed), (), _check_envelope),
    Target("envelope in a text", from_text, bent(packed.map(to_text)), (), _check_text),
    Target(
        "envelope, opened",
        lambda data: CIPHER.open(data, Field.PAYLOAD, OWNER),
        bent_bytes(sealed),
        (EncryptionError,),
        _check_opened,
    ),
    Target(
        "envelope, read without a key",
        lambda data: decode(Body(data, Encoding.ENCRYPTED)),
        bent_bytes(packed),
        (EncryptionError,),
    ),
    Target(
        "encryption key",
        lambda text: parse_key(text).text,
        bent(key_texts) | objects,
        (ConfigurationError,),
        hides=_secret_in,
    ),
    Target(
        "encryption keys",
        parse_keys,
        bent(st.lists(key_texts, max_size=3).map(",".join)) | objects,
        (ConfigurationError,),
        _check_ring,
        hides=_secret_in,
    ),
    Target(
        "what becomes of plain content",
        lambda given: parse_plain(given, NOW),
        bent(st.dates().map(lambda day: f"accept until {day}")) | objects,
        (ConfigurationError,),
        _check_plain,
    ),
)

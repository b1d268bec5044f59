"""What an encrypted body looks like, and to what it is bound; no key is needed to look.

An envelope is a header (what it is, and the id of its key), a nonce, and the ciphertext with its
tag. Small texts, which a store keeps among others, carry one in base64 behind a prefix.
"""

from __future__ import annotations

import base64
import binascii
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.crypto.keyring import KeyRing, is_key_id
from fencepost.core.job.job import Attempt, Body, DeadLetter, Encoding, Job
from fencepost.errors import EncryptionError, MissingKeyError, PlainContentError, TamperedError

S = TypeVar("S", Job, Attempt, DeadLetter)

MAGIC = b"FPE\x01"
"""The last byte is the version of the format: AES-256-GCM, with all of it bound as below."""
NONCE_BYTES = 12
TAG_BYTES = 16
PREFIX = "fencepost-encrypted:"

TAMPERED = Body(b"", Encoding.ENCRYPTED)
"""What stands in the place of a body that does not authenticate: no envelope at all."""
REFUSED = Body(b"plain", Encoding.ENCRYPTED)
"""What stands in the place of a body that is not encrypted, where that is refused."""
REFUSED_TEXT = "not encrypted, and therefore refused"
"""The same for a text."""


class Field(StrEnum):
    """What is in an envelope; one does not open in the place of another."""

    PAYLOAD = "payload"
    RESULT = "result"
    CHECKPOINT = "checkpoint"
    FAILURE = "failure"
    PROGRESS = "progress"
    CALLBACK = "callback"
    EVENT = "event"
    TEMPLATE = "template"


class Owner(NamedTuple):
    """What an envelope belongs to; it opens for a job of the same id, type, queue and key only."""

    id: str
    type: str = ""
    queue: str = ""
    key: str | None = None


class Envelope(msgspec.Struct, gc=False, frozen=True):
    """An encrypted body, taken apart."""

    key_id: str
    nonce: bytes
    sealed: bytes
    """The ciphertext and its tag."""


def header(key_id: str) -> bytes:
    """Return what an envelope of this key begins with."""
    return MAGIC + bytes((len(key_id),)) + key_id.encode("ascii")


def pack(envelope: Envelope) -> bytes:
    """Return *envelope* as it is stored."""
    assert len(envelope.nonce) == NONCE_BYTES
    return header(envelope.key_id) + envelope.nonce + envelope.sealed


def parse(data: bytes) -> Envelope | None:
    """Return the envelope in *data*; None if there is none, whatever else is."""
    start = len(MAGIC) + 1
    if data[: len(MAGIC)] != MAGIC or len(data) < start:
        return None
    nonce_at = start + data[start - 1]
    sealed_at = nonce_at + NONCE_BYTES
    key_id = data[start:nonce_at]
    name = key_id.decode("latin-1")
    if len(data) < sealed_at + TAG_BYTES or not is_key_id(name):
        return None
    return Envelope(name, data[nonce_at:sealed_at], data[sealed_at:])


def bound(field: Field, owner: Owner) -> Owner:
    """Return as much of *owner* as whoever reads the field knows; what decides what runs has all.

    A list of dead letters does not say their keys, and a delivery only the id of the job that it
    tells of, which may have been pruned by then.
    """
    if field is Field.CALLBACK:
        return Owner(owner.id)
    if field in (Field.FAILURE, Field.PROGRESS):
        return owner._replace(key=None)
    return owner


def binding(head: bytes, field: Field, owner: Owner) -> bytes:
    """Return what is authenticated with the ciphertext: it opens for this and nothing else.

    Unambiguous: a header says how long it is, a field contains no NUL, each part says how long it
    is, and the key is the rest.
    """
    id_, type_, queue, key = bound(field, owner)
    parts = f"{len(id_)}:{id_}{len(type_)}:{type_}{len(queue)}:{queue}"
    return head + f"{field.value}\0{parts}{'-' if key is None else '+' + key}".encode()


# Envelopes in the place of a text.


def to_text(data: bytes) -> str:
    """Return a packed envelope as a text."""
    return PREFIX + base64.urlsafe_b64encode(data).decode()


def from_text(text: str) -> bytes | None:
    """Return the packed envelope that *text* carries, or None."""
    if not text.startswith(PREFIX):
        return None
    try:
        data = base64.b64decode(text[len(PREFIX) :].encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return None if parse(data) is None else data


# What is shown, and said, where it cannot be read.


def shown_text(text: str) -> str:
    """Return *text*, or in the place of an encrypted one, with which key it can be read."""
    data = from_text(text)
    return text if data is None else _shown(data)


def shown_body(body: Body) -> str:
    """Say of an encrypted body with which key it can be read."""
    return _shown(body.data)


def _shown(data: bytes) -> str:
    if data == REFUSED.data:
        return REFUSED_TEXT
    envelope = parse(data)
    return "encrypted, and damaged" if envelope is None else f"encrypted (key {envelope.key_id})"


def key_id_of(body: Body) -> str | None:
    """Return the id of the key of an encrypted body; None for one that is damaged."""
    envelope = parse(body.data)
    return None if envelope is None else envelope.key_id


def unreadable(body: Body, keys: KeyRing | None = None) -> EncryptionError:
    """Return what is raised for an encrypted body that was left as it is by whoever has *keys*."""
    if body == REFUSED:
        return PlainContentError()
    key_id = key_id_of(body)
    if key_id is None or (keys is not None and key_id in keys):
        return TamperedError()
    return MissingKeyError(key_id)


def readable(seen: S) -> S:
    """Return what is *seen* with no ciphertext where a message should be."""
    changes: dict[str, Any] = {}
    for name in ("failure", "progress"):
        part = getattr(seen, name, None)
        if part is not None and from_text(part.message) is not None:
            changes[name] = replace(part, message=shown_text(part.message))
    url = getattr(seen, "callback_url", None)
    if url is not None and from_text(url) is not None:
        changes["callback_url"] = shown_text(url)
    return replace(seen, **changes) if changes else seen

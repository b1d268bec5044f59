"""Encryption: the keys, and the form of an encrypted body and what it is bound to.

Of the keys, the first encrypts and all decrypt. Whether unencrypted content is accepted has an end:
otherwise a writer to the database could turn encryption off for good, by storing such content.

An envelope is a header (format and key id), a nonce, and the ciphertext with its tag. A small text
field holds one in base64, after a prefix. All that is here about envelopes needs no key.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import KEY_BYTES, KEY_ID_LENGTH_MAX, KEY_RING_MAX, PLAIN_DAYS_MAX
from fencepost.core.display import shown
from fencepost.core.job.job import Attempt, Body, DeadLetter, Encoding, Job
from fencepost.errors import (
    ConfigurationError,
    EncryptionError,
    MissingKeyError,
    PlainContentError,
    TamperedError,
)

_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{KEY_ID_LENGTH_MAX - 1}}}", re.ASCII)
FORM = f"id:base64 (of {KEY_BYTES} random bytes); `fencepost keys new` makes one"


def is_key_id(text: str) -> bool:
    """Return whether *text* can name a key."""
    return _ID.fullmatch(text) is not None


# No message and no representation below shows a secret.


class EncryptionKey(msgspec.Struct, frozen=True):
    """A secret of 32 bytes, and its id in stored data."""

    id: str
    secret: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not is_key_id(self.id):
            raise ConfigurationError(
                f"the id of an encryption key is 1 to {KEY_ID_LENGTH_MAX} letters, digits, dots, "
                f"dashes and underscores; a key is written {FORM}"
            )
        if not isinstance(self.secret, bytes) or len(self.secret) != KEY_BYTES:
            raise ConfigurationError(
                f"encryption key {self.id!r} is not of {KEY_BYTES} bytes; a key is written {FORM}"
            )

    @property
    def text(self) -> str:
        """The key as in FENCEPOST_KEYS."""
        return f"{self.id}:{base64.b64encode(self.secret).decode()}"

    def __repr__(self) -> str:
        return f"<EncryptionKey {self.id}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("id", self.id)]


def parse_key(text: object) -> EncryptionKey:
    """Return the key in ``id:base64``, or raise ConfigurationError."""
    if isinstance(text, EncryptionKey):
        return text
    if not isinstance(text, str):
        raise ConfigurationError(
            f"an encryption key is written {FORM}; got a {type(text).__name__}"
        )
    id_, colon, digits = text.strip().partition(":")
    if not colon:
        raise ConfigurationError(f"an encryption key has no id; it is written {FORM}")
    return EncryptionKey(id_, _secret_of(digits))


def _secret_of(digits: str) -> bytes:
    """Return the bytes of base64 in either alphabet, padded or not; empty if it is invalid."""
    standard = digits.strip().replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


class KeyRing(msgspec.Struct, frozen=True):
    """Keys by id: the first encrypts, every one decrypts."""

    keys: tuple[EncryptionKey, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= KEY_RING_MAX:
            raise ConfigurationError(
                f"1 to {KEY_RING_MAX} encryption keys, not {len(self.keys)}; to store jobs "
                f"unencrypted, leave keys= and FENCEPOST_KEYS out"
            )
        if len(set(self.ids)) != len(self.keys):
            raise ConfigurationError("two encryption keys have the same id; each needs its own")

    @property
    def current(self) -> EncryptionKey:
        """The key that encrypts."""
        return self.keys[0]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(key.id for key in self.keys)

    def __contains__(self, key_id: object) -> bool:
        return key_id in self.ids


Keys = KeyRing | Sequence[EncryptionKey | str] | EncryptionKey | str


def parse_keys(given: object) -> KeyRing:
    """Return the ring of *given* keys, or raise ConfigurationError; text is split at commas."""
    if isinstance(given, KeyRing):
        return given
    if isinstance(given, EncryptionKey):
        return KeyRing((given,))
    if isinstance(given, str):
        given = [text for text in given.split(",") if text.strip()]
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray, memoryview)):
        raise ConfigurationError(f"keys is a list of encryption keys; got a {type(given).__name__}")
    return KeyRing(tuple(parse_key(each) for each in given))


_ACCEPT = re.compile(r"accept until (\d{4}-\d{2}-\d{2})", re.ASCII)


class Plain(msgspec.Struct, frozen=True):
    """Until when unencrypted content is read."""

    until: date | None = None
    """The last day, in UTC; None if it is refused."""

    def accepts(self, now: datetime) -> bool:
        """Return whether it is read at *now*."""
        return self.until is not None and now.astimezone(UTC).date() <= self.until


REFUSE = Plain()


def parse_plain(given: object, now: datetime) -> Plain:
    """Return what ``plain=`` says at *now*, or raise ConfigurationError."""
    if isinstance(given, Plain):
        return _check_end(given, now)
    text = given.strip() if isinstance(given, str) else ""
    if text == "refuse":
        return REFUSE
    found = _ACCEPT.fullmatch(text)
    try:
        until = None if found is None else date.fromisoformat(found[1])
    except ValueError:  # such as the 31st of February
        until = None
    if until is None:
        raise ConfigurationError(
            f"plain must be 'refuse' or 'accept until YYYY-MM-DD', got {shown(given)}"
        )
    return _check_end(Plain(until), now)


def _check_end(plain: Plain, now: datetime) -> Plain:
    """A past day is fine: content is refused from then on, without a change of the app."""
    latest = now.astimezone(UTC).date() + timedelta(days=PLAIN_DAYS_MAX)
    if plain.until is not None and plain.until > latest:
        raise ConfigurationError(
            f"plain content can be accepted for {PLAIN_DAYS_MAX} days at most, that is until "
            f"{latest}; got {plain.until}"
        )
    return plain


S = TypeVar("S", Job, Attempt, DeadLetter)

MAGIC = b"FPE\x01"
"""The last byte is the version of the format: AES-256-GCM, bound as ``binding`` says."""
NONCE_BYTES = 12
TAG_BYTES = 16
PREFIX = "fencepost-encrypted:"

TAMPERED = Body(b"", Encoding.ENCRYPTED)
"""Replaces a body that does not authenticate; it is no envelope."""
REFUSED = Body(b"plain", Encoding.ENCRYPTED)
"""Replaces an unencrypted body where those are refused."""
REFUSED_TEXT = "not encrypted, and therefore refused"
DAMAGED_TEXT = "encrypted, and damaged"
_NOTE = re.compile(
    rf"encrypted \(key {_ID.pattern}\)|{DAMAGED_TEXT}|{REFUSED_TEXT}".encode("ascii")
)


class Field(StrEnum):
    """The field that an envelope belongs to; it does not open as another."""

    PAYLOAD = "payload"
    RESULT = "result"
    CHECKPOINT = "checkpoint"
    FAILURE = "failure"
    PROGRESS = "progress"
    CALLBACK = "callback"
    EVENT = "event"
    TEMPLATE = "template"
    PATCH = "patch"


class Owner(NamedTuple):
    """The job that an envelope belongs to; it opens only for this id, type, queue and key."""

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
    """Return the header for this key."""
    return MAGIC + bytes((len(key_id),)) + key_id.encode("ascii")


def pack(envelope: Envelope) -> bytes:
    """Return *envelope* as it is stored."""
    assert len(envelope.nonce) == NONCE_BYTES
    return header(envelope.key_id) + envelope.nonce + envelope.sealed


def parse(data: bytes) -> Envelope | None:
    """Return the envelope in *data*; None if it is something else."""
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
    """Return the parts of *owner* that every reader of the field knows.

    A list of dead letters does not have keys; a delivery only has the id of its job, which may
    have been pruned. All that decides what runs is bound completely.
    """
    if field is Field.CALLBACK:
        return Owner(owner.id)
    if field in (Field.FAILURE, Field.PROGRESS):
        return owner._replace(key=None)
    return owner


def binding(head: bytes, field: Field, owner: Owner) -> bytes:
    """Return what is authenticated with the ciphertext.

    Unambiguous: header and parts give their lengths, a field contains no NUL, the key is the rest.
    """
    id_, type_, queue, key = bound(field, owner)
    parts = f"{len(id_)}:{id_}{len(type_)}:{type_}{len(queue)}:{queue}"
    return head + f"{field.value}\0{parts}{'-' if key is None else '+' + key}".encode()


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


def shown_text(text: str) -> str:
    """Return *text*, or for an encrypted one the id of its key."""
    data = from_text(text)
    return text if data is None else shown_envelope(data)


def shown_envelope(data: bytes) -> str:
    """Return what is shown for an encrypted body: the id of its key.

    A client has no more than this text itself, in place of the body.
    """
    if data == REFUSED.data:
        return REFUSED_TEXT
    if _NOTE.fullmatch(data):
        return data.decode()
    envelope = parse(data)
    return DAMAGED_TEXT if envelope is None else f"encrypted (key {envelope.key_id})"


def key_id_of(body: Body) -> str | None:
    """Return the key id of an encrypted body; None if it is damaged."""
    envelope = parse(body.data)
    return None if envelope is None else envelope.key_id


def unreadable(body: Body, keys: KeyRing | None = None) -> EncryptionError:
    """Return the error for a body that could not be decrypted with *keys*."""
    if body == REFUSED:
        return PlainContentError()
    key_id = key_id_of(body)
    if key_id is None or (keys is not None and key_id in keys):
        return TamperedError()
    return MissingKeyError(key_id)


def readable(seen: S) -> S:
    """Return *seen* without ciphertext in its messages."""
    changes: dict[str, Any] = {}
    failure, progress = seen.failure, getattr(seen, "progress", None)
    if failure is not None and from_text(failure.message) is not None:
        changes["failure"] = replace(failure, message=shown_text(failure.message))
    if progress is not None and from_text(progress["message"]) is not None:
        changes["progress"] = {**progress, "message": shown_text(progress["message"])}
    url = getattr(seen, "callback_url", None)
    if url is not None and from_text(url) is not None:
        changes["callback_url"] = shown_text(url)
    return replace(seen, **changes) if changes else seen

"""The keys that jobs are encrypted with: a ring of which the first encrypts and all decrypt."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence

import msgspec

from fencepost.core.bounds import KEY_BYTES, KEY_ID_LENGTH_MAX, KEY_RING_MAX
from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{KEY_ID_LENGTH_MAX - 1}}}", re.ASCII)
FORM = f"id:base64 (of {KEY_BYTES} random bytes); `fencepost keys new` makes one"


def is_key_id(text: str) -> bool:
    """Tell whether *text* can name a key."""
    return _ID.fullmatch(text) is not None


# No message below repeats what may be a secret, and no representation shows one.


class EncryptionKey(msgspec.Struct, frozen=True):
    """A secret of 32 bytes, and the name under which stored data refers to it."""

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
        """The key as it is written in FENCEPOST_KEYS."""
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
        raise ConfigurationError(f"an encryption key is written {FORM}; got a {_kind(text)}")
    id_, colon, digits = text.strip().partition(":")
    if not colon:
        raise ConfigurationError(f"an encryption key has no id; it is written {FORM}")
    return EncryptionKey(id_, _secret_of(digits))


def _secret_of(digits: str) -> bytes:
    """Return the bytes of base64 in either alphabet, padded or not; none if it is none."""
    standard = digits.strip().replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _kind(value: object) -> str:
    return shown(type(value).__name__)


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
        raise ConfigurationError(f"keys is a list of encryption keys; got a {_kind(given)}")
    return KeyRing(tuple(parse_key(each) for each in given))

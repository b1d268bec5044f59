"""AES-256-GCM under the keys of a ring; ``cryptography`` is loaded by whoever has keys."""

from __future__ import annotations

from fencepost.clock import Clock
from fencepost.core.crypto.envelope import NONCE_BYTES, Field, Owner, binding, header, parse
from fencepost.core.crypto.keyring import KeyRing
from fencepost.errors import ConfigurationError, MissingKeyError, TamperedError


class Cipher:
    """Seals bytes into envelopes and opens them again, for one field of one job."""

    def __init__(self, ring: KeyRing, clock: Clock) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise ConfigurationError(
                f"encryption needs a library: pip install 'fencepost[encryption]' ({error})"
            ) from None
        self._clock = clock
        self._invalid = InvalidTag
        self._ciphers = {key.id: AESGCM(key.secret) for key in ring.keys}
        self._current = self._ciphers[ring.current.id]
        self._header = header(ring.current.id)

    def seal(self, data: bytes, field: Field, owner: Owner) -> bytes:
        """Return *data* in an envelope of the current key."""
        # Random, and so unique: no counter would survive a crash in every process at once.
        nonce = self._clock.new_bytes(NONCE_BYTES)
        bound = binding(self._header, field, owner)
        return self._header + nonce + self._current.encrypt(nonce, data, bound)

    def open(self, data: bytes, field: Field, owner: Owner) -> bytes:
        """Return what was sealed; raise MissingKeyError or TamperedError."""
        envelope = parse(data)
        if envelope is None:
            raise TamperedError
        cipher = self._ciphers.get(envelope.key_id)
        if cipher is None:
            raise MissingKeyError(envelope.key_id)
        bound = binding(header(envelope.key_id), field, owner)
        try:
            return cipher.decrypt(envelope.nonce, envelope.sealed, bound)
        except self._invalid:
            raise TamperedError from None

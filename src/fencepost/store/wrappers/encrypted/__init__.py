"""A store with encryption around it, so that no engine contains any; ``facets`` does the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.core.encryption import REFUSE, KeyRing, Plain
from fencepost.store.interface.store import Store, WrappedStore
from fencepost.store.plan import Operation
from fencepost.store.wrappers.encrypted.decrypt import Opener
from fencepost.store.wrappers.encrypted.encrypt import Cipher, Sealer
from fencepost.store.wrappers.encrypted.facets import facets

T = TypeVar("T")


def encrypted(store: Store, keys: KeyRing, plain: Plain = REFUSE) -> Store:
    """Return *store*, encrypting all that comes from users, and decrypting what *keys* can.

    What is stored unencrypted is refused, unless *plain* accepts it.
    """
    cipher = Cipher(keys, store.clock)
    opener = Opener(cipher, plain, store.clock)
    return EncryptedStore(store, keys, Sealer(cipher), opener)


class EncryptedStore(WrappedStore):
    """Encrypts and decrypts what has content of users in it."""

    def __init__(self, store: Store, keys: KeyRing, sealer: Sealer, opener: Opener) -> None:
        super().__init__(store, facets(store, sealer, opener))
        self._keys = keys
        self._sealer = sealer
        self._opener = opener

    @property
    def keys(self) -> KeyRing:  # type: ignore[override]  # read-only
        return self._keys

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return self._store.run_in(conn, self._making(make), must_be_open=must_be_open)

    async def run_in_async(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        return await self._store.run_in_async(conn, self._making(make), must_be_open=must_be_open)

    def _making(self, make: Callable[[Store], Operation[T]]) -> Callable[[Store], Operation[T]]:
        return lambda view: make(EncryptedStore(view, self.keys, self._sealer, self._opener))

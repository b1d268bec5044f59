"""An encrypting store names every operation, and one that it does not know is refused."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.core.crypto.keyring import EncryptionKey, KeyRing
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.store.wrappers.encrypted.contentless import CONTENTLESS, names_all_of
from fencepost.store.wrappers.encrypted.store import EncryptedStore, encrypted
from fencepost.testing.clock import FakeClock

KEYS = KeyRing((EncryptionKey("k", b"k" * 32),))


class Larger(Store):
    """The protocol as it may be one day."""

    def peek(self, job_id: str) -> Operation[Any]:
        raise NotImplementedError


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_an_operation_that_nobody_named_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="does not know peek of Larger"):
        names_all_of(Larger, CONTENTLESS)(type("Wrapper", (EncryptedStore,), {}))


def test_so_is_one_that_was_taken_off_the_list() -> None:
    with pytest.raises(TypeError, match="does not know cancel of Store"):

        @names_all_of(Store, CONTENTLESS - {"cancel"})
        class Forgetful:
            enqueue = spawn = claim = settle = save = send = events = load_events = None
            declare_crons = fire = crons = edit = replay = get = find = attempts = None
            dependencies = situation = dead_letters = dump = load = run_in = run_in_async = None


def test_and_one_that_no_store_has() -> None:
    """Else a list would go on naming what was renamed, and pass on what has its name next."""
    with pytest.raises(TypeError, match="Store has no peek"):
        names_all_of(Store, CONTENTLESS | {"peek"})(type("Wrapper", (EncryptedStore,), {}))


def test_what_is_wrapped_is_not_listed_as_without_content() -> None:
    wrapped = {name for name in vars(EncryptedStore) if name not in CONTENTLESS}
    assert public(Store) - CONTENTLESS == {n for n in wrapped if not n.startswith("_")} | {"keys"}


def test_what_only_an_engine_has_is_not_passed_on() -> None:
    inner = MemoryStore(clock=FakeClock())
    store = encrypted(inner, KEYS)
    assert public(MemoryStore) >= public(Store)
    inner.peek = lambda: "content"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="peek"):
        store.peek()  # type: ignore[attr-defined]
    assert (store.url, store.clock, store.tidy_interval) == (inner.url, inner.clock, None)
    with pytest.raises(AttributeError):
        store.url = "memory://elsewhere"

"""Tokens and the audit log of the memory store stand or fall with their operation."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.core.access.audit import make_action
from fencepost.core.access.tokens import Principal, Role, TokenOptions, TokenRecord, make_token
from fencepost.core.filter import PageRequest
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation, Plan
from fencepost.testing.clock import FakeClock

OPTIONS = TokenOptions(name="ci", roles=(Role.SUBMIT,))
CANCEL = make_action(Principal.local(), "job.cancel", id="9f7a1c52-5f0e-4b8e-8f3c-6f3f2b9f7d10")


class Fault(Exception):
    """What goes wrong after all was done."""


def failing(operation: Operation[Any]) -> Operation[Any]:
    def start() -> Plan[Any]:
        yield from operation.start()
        raise Fault

    return replace(operation, start=start)


def token(store: MemoryStore) -> TokenRecord:
    return make_token(OPTIONS, store.clock.new_bytes(30), store.clock.now()).record


def test_a_fault_after_a_token_or_an_entry_was_written_takes_it_back() -> None:
    store = MemoryStore(clock=FakeClock())
    known = token(store)
    store.run(store.access.add(known))
    store.run(store.audit.record(CANCEL))
    before = store.run(store.access.tokens()), store.run(store.audit.list(PageRequest()))
    for operation in (
        store.access.add(token(store)),
        store.access.revoke(known.id),
        store.audit.record(replace(CANCEL, id="9f7a1c52-5f0e-4b8e-8f3c-6f3f2b9f7d11")),
        store.audit.prune(0.0, 10),
    ):
        with pytest.raises(Fault):
            store.run(failing(operation))
        after = store.run(store.access.tokens()), store.run(store.audit.list(PageRequest()))
        assert after == before, operation.name

"""Ctrl-C may come between any two steps; what is caught must leave no transaction open."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from fencepost.clock import SystemClock
from fencepost.store.memory.store import MemoryStore
from fencepost.store.sqlite.engine.connection import transact


class Interrupted(sqlite3.Connection):
    """Python looks for signals when a call returns: here, when a transaction has just begun."""

    is_due = True

    def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *params)
        if self.is_due and sql.startswith("begin"):
            self.is_due = False
            raise KeyboardInterrupt
        return cursor


def test_a_write_that_is_interrupted_as_it_begins_leaves_no_transaction() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=Interrupted)
    store = MemoryStore(clock=SystemClock())
    store.connection.backup(connection)
    operation = store.queue.enqueue([])
    with pytest.raises(KeyboardInterrupt):
        transact(connection, [operation], lambda: None)
    assert not connection.in_transaction
    assert transact(connection, [operation], lambda: None) == [[]]


def test_a_signal_handler_does_not_end_the_transaction_that_it_interrupts() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("begin immediate")
    with pytest.raises(sqlite3.OperationalError):
        transact(connection, [], lambda: None)
    assert connection.in_transaction

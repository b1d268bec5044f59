"""TokenTable of the memory store, and its audit log."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.bounds import TOKEN_KEPT
from fencepost.core.filter import PageRequest
from fencepost.store.interface.audit import ActionPage
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.records.log import Ledger
from fencepost.store.sql.access import check_room, check_same

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


class TokenTable:
    """TokenTable by id."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tokens: dict[str, TokenRecord] = {}

    def add(self, record: TokenRecord, now: datetime) -> None:
        """Keep a token, unless it is there; forget those that ended long ago."""
        until = now - timedelta(seconds=TOKEN_KEPT)
        kept = {id_: each for id_, each in self._tokens.items() if each.ended_at(until) is None}
        known = kept.get(record.id)
        if known is not None:
            check_same(record, known.digest)
        else:
            check_room(len(kept))
        self._replace({record.id: record, **kept})

    def list(self) -> list[TokenRecord]:
        return sorted(self._tokens.values(), key=lambda each: (each.created_at, each.id))

    def revoke(self, token_id: str, now: datetime) -> bool:
        """Make a token good for nothing."""
        known = self._tokens.get(token_id)
        if known is not None and known.revoked_at is None:
            revoked = msgspec.structs.replace(known, revoked_at=now)
            self._replace({**self._tokens, token_id: revoked})
        return known is not None

    def _replace(self, tokens: dict[str, TokenRecord]) -> None:
        before = self._tokens
        self._tokens = tokens
        self._journal.note(lambda: setattr(self, "_tokens", before))


class ActionTable:
    """The audit log."""

    def __init__(self, journal: Journal) -> None:
        self._ledger: Ledger[Action] = Ledger(
            journal, id_of=lambda action: action.id, at_of=_recorded_at
        )

    def record(self, action: Action, now: datetime) -> None:
        """Append an action, unless it is there."""
        self._ledger.add(msgspec.structs.replace(action, at=now))

    def page(self, page: PageRequest) -> ActionPage:
        """Return one page of the log, newest first."""
        return ActionPage(*self._ledger.page(page))

    def prune(self, keep: float, limit: int, now: int) -> int:
        """Delete the oldest that were kept long enough."""
        return self._ledger.prune(keep, limit, now)


def _recorded_at(action: Action) -> datetime:
    assert action.at is not None
    return action.at


def add(world: MemoryWorld, record: TokenRecord) -> None:
    """Keep a token."""
    world.tokens.add(record, world.clock.now())


def tokens(world: MemoryWorld) -> list[TokenRecord]:
    """Return all tokens, the oldest first."""
    return world.tokens.list()


def revoke(world: MemoryWorld, token_id: str) -> bool:
    """Make a token good for nothing from now on."""
    return world.tokens.revoke(token_id, world.clock.now())


def record(world: MemoryWorld, action: Action) -> None:
    """Append to the audit log."""
    world.actions.record(action, world.clock.now())


def actions(world: MemoryWorld, page: PageRequest) -> ActionPage:
    """Return a page of the audit log, newest first."""
    return world.actions.page(page)


def prune(world: MemoryWorld, keep: float, limit: int) -> int:
    """Delete the oldest of the audit log."""
    return world.actions.prune(keep, limit, world.now)

"""Tokens of the HTTP API, and the audit log of what operators did.

An action is logged before and after it is tried, and recorded in the store at its end. A process
that dies in between leaves the first line; one whose store goes away leaves both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from fencepost.actions.backend import Script
from fencepost.actions.local.steps import StoreActions
from fencepost.actions.replies import AuditLog
from fencepost.core.access.audit import Action, RefusedTries, make_action
from fencepost.core.access.bounds import AUDIT_REFUSED_WINDOW, TOKEN_ID_BYTES, TOKEN_SECRET_BYTES
from fencepost.core.access.tokens import NewToken, Principal, TokenOptions, TokenRecord, make_token
from fencepost.core.filter import ACTIONS, encode_cursor, make_page
from fencepost.core.values.names import id_text
from fencepost.errors import StoreError, TokenNotFoundError
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.records.access import ActionPage

if TYPE_CHECKING:
    from fencepost.actions.session import Session

REFUSED_MORE = "refused.more"
"""The action of a record that only counts refused tries."""


def begin(session: Session, principal: Principal, action: str, **fields: Any) -> Action:
    """Log an action before it is tried, and return it; *fields* are those of ``make_action``."""
    begun = make_action(principal, action, id=id_text(session.clock.new_id()), **fields)
    log(names.AUDIT_ACTION, phase="begin", **_fields(begun))
    return begun


def end(session: Session, action: Action, status: int | None = None) -> Script[None]:
    """Record how an action ended; repeating this with the same action is harmless."""
    ended = replace(action, status=status)
    log(names.AUDIT_ACTION, phase="end", **_fields(ended))
    yield session.store.audit.record(ended)


class LocalTokens(StoreActions):
    """The bearer tokens of a store."""

    def create(self, options: TokenOptions) -> Script[NewToken]:
        """Make a token. If the store fails, one may exist whose text is lost: revoke it."""
        raw = self._session.clock.new_bytes(TOKEN_ID_BYTES + TOKEN_SECRET_BYTES)
        token = make_token(options, raw, self._session.clock.now())
        detail = {
            "name": options.name,
            "roles": options.roles,
            "queues": options.queues,
            "expires_at": token.record.expires_at,
        }
        action = begin(
            self._session, Principal.local(), "token.create", target=token.record.id, detail=detail
        )
        yield self._store.access.add(token.record)
        yield from end(self._session, action)
        return token

    def all(self) -> Script[list[TokenRecord]]:
        """Return every token."""
        records: list[TokenRecord] = yield self._store.access.tokens()
        return records

    def revoke(self, name: str) -> Script[str]:
        """Revoke a token, or raise TokenNotFoundError; return its id."""
        records: list[TokenRecord] = yield self._store.access.tokens()
        record = _named(records, name)
        detail = {"name": record.name}
        action = begin(
            self._session, Principal.local(), "token.revoke", target=record.id, detail=detail
        )
        if not (yield self._store.access.revoke(record.id)):
            raise TokenNotFoundError(name)
        yield from end(self._session, action)
        return record.id


def _named(records: Sequence[TokenRecord], name: str) -> TokenRecord:
    """Return the token with this id, or else the unrevoked one with this name."""
    for record in records:
        if record.id == name:
            return record
    named = [record for record in records if record.name == name]
    candidates = [record for record in named if record.revoked_at is None] or named[-1:]
    if len(candidates) != 1:
        raise TokenNotFoundError(name, [record.id for record in candidates])
    return candidates[0]


class LocalAudit(StoreActions):
    """The audit log of a store."""

    def find(self, after: str | None, limit: int) -> Script[AuditLog]:
        """Return a page of the log."""
        asked = make_page(limit=limit, after=after, of=ACTIONS)
        page: ActionPage = yield self._store.audit.list(asked)
        following = None if page.next is None else encode_cursor(page.next, ACTIONS)
        return AuditLog(page.actions, following)


class Auditor:
    """The audit log as a server writes it, after ``begin``.

    Refused tries are recorded as far as ``RefusedTries`` allows; the rest are only counted.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._refused = RefusedTries()
        self._timer: asyncio.TimerHandle | None = None
        self._recording: asyncio.Task[None] | None = None

    async def end(self, action: Action, status: int) -> None:
        """Record how it ended. If the store takes no record, the action is done all the same."""
        await self.record_refused()
        await self._record(action, status)

    async def refuse(self, principal: Principal, action: Action, status: int) -> None:
        """Record a refused action; its detail says why."""
        await self.record_refused()
        if self._refused.note(principal, self._session.clock.monotonic()):
            await self._record(action, status)
        elif self._timer is None:
            # In case no request follows, a timer records the count.
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(AUDIT_REFUSED_WINDOW, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._recording = asyncio.get_running_loop().create_task(self.record_refused())

    async def record_refused(self) -> None:
        """Record the counts of refused tries whose window is over."""
        clock = self._session.clock
        for principal, count in list(self._refused.ended(clock.monotonic())):
            detail = {"count": count, "seconds": AUDIT_REFUSED_WINDOW}
            id_ = id_text(clock.new_id())
            more = make_action(principal, REFUSED_MORE, id=id_, detail=detail)
            await self._record(more, None)

    async def _record(self, action: Action, status: int | None) -> None:
        try:
            await self._session.run_async(end(self._session, action, status))
        except StoreError as error:
            self._session.counters.add(names.AUDIT_FAILED)
            fields = _fields(replace(action, status=status))
            log(names.AUDIT_FAILED, level=logging.ERROR, code=error.code, **fields)


def _fields(action: Action) -> dict[str, Any]:
    """Return the fields of an action's log line, which has a time of its own."""
    fields = asdict(action)
    del fields["at"]
    return fields

"""Tokens and the audit log: plans over the SQL of an engine, and rules that every store follows."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from fencepost.core.access.audit import Action, decode_detail, encode_detail
from fencepost.core.access.bounds import SESSIONS_MAX, SESSIONS_OF_TOKEN_MAX, TOKEN_KEPT, TOKENS_MAX
from fencepost.core.access.sessions import SessionRecord
from fencepost.core.access.tokens import Role, TokenRecord, is_token_id
from fencepost.core.filter import PageRequest
from fencepost.core.values.times import seconds_to_us
from fencepost.errors import ConfigurationError, StateConflictError
from fencepost.store.interface.records.access import ActionPage
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import Codec, SqlEnv, encode_json
from fencepost.store.sql.paging import LAST_SEQ, cut

_words = msgspec.json.Decoder(tuple[str, ...])


class TokenSql(NamedTuple):
    """Statements about tokens, with their parameters."""

    forget: str
    """now, microseconds for which tokens are kept after their end"""
    known: str
    """id; returns the digest"""
    total: str
    add: str
    """the columns of a token; returns a row unless the id is taken"""
    tokens: str
    revoke: str
    """now, id; returns a row if there is such a token"""


class TokenPlans(NamedTuple):
    sql: TokenSql
    codec: Codec

    def add(self, env: SqlEnv, record: TokenRecord) -> Plan[None]:
        """Keep a token, unless it is there."""
        yield Statement(self.sql.forget, (env.now, seconds_to_us(TOKEN_KEPT)))
        if (yield from self._is_known(record)):
            return
        ((count,),) = yield Statement(self.sql.total)
        check_room(count)
        encode_time = self.codec.encode_time_or_none
        params = (
            record.id,
            record.name,
            record.digest,
            _encode_words(record.roles),
            _encode_words(record.queues),
            record.rate,
            encode_time(record.created_at),
            encode_time(record.expires_at),
            encode_time(record.revoked_at),
        )
        if not (yield Statement(self.sql.add, params)):
            yield from self._is_known(record)  # another session was faster; is it the same token?

    def _is_known(self, record: TokenRecord) -> Plan[bool]:
        rows = yield Statement(self.sql.known, (record.id,))
        for (digest,) in rows:
            check_same(record, digest)
        return bool(rows)

    def tokens(self, env: SqlEnv) -> Plan[list[TokenRecord]]:
        """Return all tokens, the oldest first."""
        return [self._decode(row) for row in (yield Statement(self.sql.tokens, alone=True))]

    def revoke(self, env: SqlEnv, token_id: str) -> Plan[bool]:
        """Make a token invalid from now on."""
        if not is_token_id(token_id):
            return False  # PostgreSQL refuses some texts as a parameter
        return bool((yield Statement(self.sql.revoke, (env.now, token_id), alone=True)))

    def _decode(self, row: Row) -> TokenRecord:
        id_, name, digest, roles, queues, rate, created_at, expires_at, revoked_at = row
        return TokenRecord(
            id=id_,
            name=name,
            digest=digest,
            roles=_decode_roles(roles),
            queues=_decode_queues(queues),
            rate=rate,
            created_at=self.codec.decode_time(created_at),
            expires_at=self.codec.decode_time_or_none(expires_at),
            revoked_at=self.codec.decode_time_or_none(revoked_at),
        )


def _encode_words(words: tuple[str, ...] | None) -> str | None:
    return None if words is None else encode_json(words)


def _decode_roles(text: str) -> tuple[Role, ...]:
    """Return roles; one that this version does not know allows nothing."""
    known = _decode_words(text)
    return tuple(role for role in Role if role in known)


def _decode_queues(text: str | None) -> tuple[str, ...] | None:
    """Return the queues of a token; a value that cannot be read allows none, not all."""
    return None if text is None else _decode_words(text)


def _decode_words(text: str) -> tuple[str, ...]:
    try:
        return _words.decode(text)
    except (msgspec.DecodeError, TypeError, ValueError):
        return ()


def check_same(record: TokenRecord, digest: bytes) -> None:
    """Raise StateConflictError if the token that has this id is another one."""
    if not hmac.compare_digest(record.digest, digest):
        raise StateConflictError(f"another token has the id {record.id}; make it again")


def check_room(count: int) -> None:
    """Raise ConfigurationError if one more token is too many."""
    if count >= TOKENS_MAX:
        raise ConfigurationError(
            f"token limit reached ({TOKENS_MAX:,}); tokens that were revoked or have expired are "
            f"removed after 90 days"
        )


class SessionSql(NamedTuple):
    """Statements about sessions of browsers, with their parameters."""

    forget: str
    """now"""
    add: str
    """the columns of a session"""
    trim_token: str
    """the token twice, how many of its sessions to keep"""
    trim: str
    """how many sessions to keep in all"""
    sessions: str
    close: str
    """id"""


class SessionPlans(NamedTuple):
    sql: SessionSql
    codec: Codec

    def sessions(self, env: SqlEnv) -> Plan[list[SessionRecord]]:
        """Return all sessions, the oldest first."""
        return [self._decode(row) for row in (yield Statement(self.sql.sessions, alone=True))]

    def open_session(self, env: SqlEnv, record: SessionRecord) -> Plan[None]:
        """Keep a session, and forget those that have expired or are too many."""
        yield Statement(self.sql.forget, (env.now,))
        times = map(self.codec.encode_time, (record.created_at, record.expires_at))
        yield Statement(self.sql.add, (record.id, record.token_id, record.digest, *times))
        token = record.token_id
        yield Statement(self.sql.trim_token, (token, token, SESSIONS_OF_TOKEN_MAX))
        yield Statement(self.sql.trim, (SESSIONS_MAX,))

    def close_session(self, env: SqlEnv, session_id: str) -> Plan[None]:
        """Forget a session, if it is there."""
        if is_token_id(session_id):  # PostgreSQL refuses some texts as a parameter
            yield Statement(self.sql.close, (session_id,), alone=True)

    def _decode(self, row: Row) -> SessionRecord:
        id_, token_id, digest, created_at, expires_at = row
        return SessionRecord(
            id=id_,
            token_id=token_id,
            digest=digest,
            created_at=self.codec.decode_time(created_at),
            expires_at=self.codec.decode_time(expires_at),
        )


class AuditSql(NamedTuple):
    """Statements about the audit log, with their parameters."""

    record: str
    """the columns of an action"""
    page: str
    """the position before which it begins, how many"""
    prune: str
    """now, microseconds to keep, how many"""


class AuditPlans(NamedTuple):
    sql: AuditSql
    codec: Codec
    count_pruned: Callable[[list[Row]], int]

    def record(self, env: SqlEnv, action: Action) -> Plan[None]:
        """Append an action, unless it is there."""
        params = (
            action.id,
            env.now,
            action.principal_id,
            action.principal,
            action.action,
            action.target,
            encode_detail(action.detail),
            action.request_id,
            action.status,
        )
        yield Statement(self.sql.record, params, alone=True)

    def actions(self, env: SqlEnv, page: PageRequest) -> Plan[ActionPage]:
        """Return one page of the log, newest first."""
        after = LAST_SEQ if page.after is None else page.after
        rows = yield Statement(self.sql.page, (after, page.limit + 1), alone=True)
        shown, position = cut(rows, page.limit)
        return ActionPage([self._decode(row) for row in shown], position)

    def prune(self, env: SqlEnv, keep: float, limit: int) -> Plan[int]:
        """Delete the oldest actions that were kept long enough."""
        params = (env.now, seconds_to_us(keep), max(limit, 0))
        return self.count_pruned((yield Statement(self.sql.prune, params, alone=True)))

    def _decode(self, row: Row) -> Action:
        _seq, id_, at, principal_id, principal, action, target, detail, request_id, status = row
        return Action(
            id=id_,
            at=self.codec.decode_time(at),
            principal_id=principal_id,
            principal=principal,
            action=action,
            target=target,
            detail=decode_detail(detail),
            request_id=request_id,
            status=status,
        )

"""Tokens: what is kept of them."""

from __future__ import annotations

from typing import Any

from fencepost.core.access.tokens import TokenRecord
from fencepost.core.bounds import TOKEN_KEPT
from fencepost.core.values.instants import from_us, from_us_or_none, seconds_to_us, to_us
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.access import (
    check_room,
    check_same,
    decode_queues,
    decode_roles,
    encode_words,
)
from fencepost.store.sqlite.jobs.catalog import Env

COLUMNS = "id, name, digest, roles, queues, rate, created_at, expires_at, revoked_at"
FORGET = "delete from tokens where revoked_at <= ? or expires_at <= ?"
KNOWN = "select digest from tokens where id = ?"
COUNT = "select count(*) from tokens"
ADD = f"insert into tokens({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
TOKENS = f"select {COLUMNS} from tokens order by created_at, id"
REVOKE = "update tokens set revoked_at = coalesce(revoked_at, ?) where id = ? returning 1"


def add(env: Env, record: TokenRecord) -> Plan[None]:
    """Keep a token, unless it is there."""
    until = env.clock.now_us() - seconds_to_us(TOKEN_KEPT)
    yield Statement(FORGET, (until, until))
    known = yield Statement(KNOWN, (record.id,))
    if known:
        check_same(record, known[0][0])
        return
    ((count,),) = yield Statement(COUNT)
    check_room(count)
    yield Statement(ADD, _row(record))


def tokens(env: Env) -> Plan[list[TokenRecord]]:
    """Return all tokens, the oldest first."""
    return [_decode(row) for row in (yield Statement(TOKENS))]


def revoke(env: Env, token_id: str) -> Plan[bool]:
    """Make a token good for nothing."""
    return bool((yield Statement(REVOKE, (env.clock.now_us(), token_id))))


def _row(record: TokenRecord) -> tuple[Any, ...]:
    return (
        record.id,
        record.name,
        record.digest,
        encode_words(record.roles),
        encode_words(record.queues),
        record.rate,
        to_us(record.created_at),
        None if record.expires_at is None else to_us(record.expires_at),
        None if record.revoked_at is None else to_us(record.revoked_at),
    )


def _decode(row: Row) -> TokenRecord:
    id_, name, digest, roles, queues, rate, created_at, expires_at, revoked_at = row
    return TokenRecord(
        id=id_,
        name=name,
        digest=digest,
        roles=decode_roles(roles),
        queues=decode_queues(queues),
        rate=rate,
        created_at=from_us(created_at),
        expires_at=from_us_or_none(expires_at),
        revoked_at=from_us_or_none(revoked_at),
    )

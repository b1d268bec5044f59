"""Tokens: what is kept of them. The role of workers cannot read this table, nor write to it."""

from __future__ import annotations

from fencepost.core.access.tokens import TokenRecord, is_token_id
from fencepost.core.bounds import TOKEN_KEPT
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import utc, utc_or_none
from fencepost.store.sql.access import (
    check_room,
    check_same,
    decode_queues,
    decode_roles,
    encode_words,
)

COLUMNS = "id, name, digest, roles, queues, rate, created_at, expires_at, revoked_at"
FORGET = """
with given as (
  select coalesce(%s::timestamptz, clock_timestamp()) - %s::bigint * interval '1 microsecond' as at
)
delete from fencepost.token using given where revoked_at <= given.at or expires_at <= given.at
"""
KNOWN = "select digest from fencepost.token where id = %s"
COUNT = "select count(*) from fencepost.token"
ADD = f"""
insert into fencepost.token({COLUMNS}) values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (id) do nothing returning 1
"""
TOKENS = f"""select {COLUMNS} from fencepost.token order by created_at, id collate "C" """
REVOKE = """
update fencepost.token
set revoked_at = coalesce(revoked_at, %s::timestamptz, clock_timestamp()) where id = %s returning 1
"""


def add(env: Env, record: TokenRecord) -> Plan[None]:
    """Keep a token, unless it is there."""
    yield Statement(FORGET, (env.now, seconds_to_us(TOKEN_KEPT)))
    if (yield from _is_known(record)):
        return
    ((count,),) = yield Statement(COUNT)
    check_room(count)
    params = (
        record.id,
        record.name,
        record.digest,
        encode_words(record.roles),
        encode_words(record.queues),
        record.rate,
        record.created_at,
        record.expires_at,
        record.revoked_at,
    )
    if not (yield Statement(ADD, params)):
        yield from _is_known(record)  # somebody was faster: with the same, or with another


def _is_known(record: TokenRecord) -> Plan[bool]:
    rows = yield Statement(KNOWN, (record.id,))
    for (digest,) in rows:
        check_same(record, digest)
    return bool(rows)


def tokens(env: Env) -> Plan[list[TokenRecord]]:
    """Return all tokens, the oldest first."""
    return [_decode(row) for row in (yield Statement(TOKENS, alone=True))]


def revoke(env: Env, token_id: str) -> Plan[bool]:
    """Make a token good for nothing."""
    if not is_token_id(token_id):
        return False  # not every text can be asked for
    return bool((yield Statement(REVOKE, (env.now, token_id), alone=True)))


def _decode(row: Row) -> TokenRecord:
    id_, name, digest, roles, queues, rate, created_at, expires_at, revoked_at = row
    return TokenRecord(
        id=id_,
        name=name,
        digest=digest,
        roles=decode_roles(roles),
        queues=decode_queues(queues),
        rate=rate,
        created_at=utc(created_at),
        expires_at=utc_or_none(expires_at),
        revoked_at=utc_or_none(revoked_at),
    )

"""Tokens of the HTTP API, and the audit log."""

from __future__ import annotations

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.access.bounds import TOKEN_KEPT
from fencepost.core.access.tokens import Role, TokenRecord
from fencepost.core.filter import PageRequest
from fencepost.core.values.times import from_us, seconds_to_us, to_us
from fencepost.store.interface.records.access import ActionPage
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.records.log import RecordLog
from fencepost.store.sql.records.access import check_room, check_same

AUDIT = RecordLog("action")

_actions = msgspec.msgpack.Decoder(Action)


class _Token(msgspec.Struct):
    """A token as it is kept; roles as text, since a later version may have others."""

    id: str
    name: str
    digest: bytes
    roles: tuple[str, ...]
    queues: tuple[str, ...] | None
    rate: float | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None


_tokens = msgspec.msgpack.Decoder(_Token)


def add(env: Env, record: TokenRecord) -> Plan[None]:
    """Keep a token, unless it is there; forget those that ended long ago."""
    unit = Unit(env)
    now = yield from unit.start()
    key = env.key("tokens")
    (flat,) = yield from unit.read([b"HGETALL", key])
    known = {name: _tokens.decode(text) for name, text in zip(flat[::2], flat[1::2], strict=True)}
    past = {name for name, token in known.items() if _is_past(token, now)}
    own_name = record.id.encode()
    for name in past - {own_name}:  # that one is replaced
        unit.do(b"HDEL", key, name)
    count = len(known) - len(past)
    own = yield from unit.field(key, own_name)
    if own is not None and own_name not in past:
        check_same(record, _tokens.decode(own).digest)
        yield from unit.commit()
        return
    check_room(count)
    unit.set_field(key, own_name, msgspec.msgpack.encode(_kept(record)))
    yield from unit.commit()


def _is_past(token: _Token, now: int) -> bool:
    """Tell whether it ended so long ago that it is forgotten."""
    ends = [at for at in (token.revoked_at, token.expires_at) if at is not None]
    return bool(ends) and min(ends) <= now - seconds_to_us(TOKEN_KEPT)


def _kept(record: TokenRecord) -> _Token:
    return _Token(
        record.id,
        record.name,
        record.digest,
        tuple(str(role) for role in record.roles),
        record.queues,
        record.rate,
        to_us(record.created_at),
        None if record.expires_at is None else to_us(record.expires_at),
        None if record.revoked_at is None else to_us(record.revoked_at),
    )


def tokens(env: Env) -> Plan[list[TokenRecord]]:
    """Return all tokens, the oldest first."""
    _, texts = yield from read(env, [b"HVALS", env.key("tokens")])
    found = sorted(map(_tokens.decode, texts), key=lambda each: (each.created_at, each.id))
    return [
        TokenRecord(
            id=token.id,
            name=token.name,
            digest=token.digest,
            roles=tuple(role for role in Role if role in token.roles),
            queues=token.queues,
            rate=token.rate,
            created_at=from_us(token.created_at),
            expires_at=None if token.expires_at is None else from_us(token.expires_at),
            revoked_at=None if token.revoked_at is None else from_us(token.revoked_at),
        )
        for token in found
    ]


def revoke(env: Env, token_id: str) -> Plan[bool]:
    """Make a token invalid from now on."""
    unit = Unit(env)
    now = yield from unit.start()
    name = token_id.encode("utf-8", "surrogatepass")
    text = yield from unit.field(env.key("tokens"), name)
    if text is None:
        return False
    token = _tokens.decode(text)
    if token.revoked_at is None:
        token.revoked_at = now
        unit.set_field(env.key("tokens"), name, msgspec.msgpack.encode(token))
        yield from unit.commit()
    return True


def record(env: Env, action: Action) -> Plan[None]:
    """Append an action, unless it is there."""
    unit = Unit(env)
    now = yield from unit.start()
    ids = env.key("action_ids")
    if (yield from unit.field(ids, action.id.encode())) is not None:
        return
    unit.set_field(ids, action.id.encode(), b"1")
    stamped = msgspec.structs.replace(action, at=from_us(now))
    yield from AUDIT.append(unit, [(msgspec.msgpack.encode(stamped), now)])
    yield from unit.commit()


def actions(env: Env, page: PageRequest) -> Plan[ActionPage]:
    """Return one page of the log, newest first."""
    rows, position = yield from AUDIT.page(env, page)
    return ActionPage([_actions.decode(text) for text in rows], position)


def prune(env: Env, keep: float, limit: int) -> Plan[int]:
    """Delete the oldest actions that were kept long enough."""
    unit = Unit(env)
    now = yield from unit.start()
    old = yield from AUDIT.older(unit, now - seconds_to_us(keep), limit)
    for text in old.values():
        unit.do(b"HDEL", env.key("action_ids"), _actions.decode(text).id.encode())
    yield from unit.commit()
    return len(old)

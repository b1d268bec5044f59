"""Sessions of browsers, which are made from tokens of the HTTP API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.core.access.bounds import SESSIONS_MAX, SESSIONS_OF_TOKEN_MAX
from fencepost.core.access.sessions import SessionRecord
from fencepost.core.values.times import to_us
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read

_records = msgspec.msgpack.Decoder(SessionRecord)


def sessions(env: Env) -> Plan[list[SessionRecord]]:
    """Return all sessions, the oldest first."""
    _, texts = yield from read(env, [b"HVALS", env.key("sessions")])
    return _decoded(texts)


def _decoded(texts: Sequence[bytes]) -> list[SessionRecord]:
    return sorted(map(_records.decode, texts), key=lambda each: (each.created_at, each.id))


def open_session(env: Env, record: SessionRecord) -> Plan[None]:
    """Keep a session, and forget those that have expired or are too many."""
    unit = Unit(env)
    now = yield from unit.start()
    key, name = env.key("sessions"), record.id.encode()
    (texts,) = yield from unit.read([b"HVALS", key])
    known = [each for each in _decoded(texts) if each.id != record.id]
    live = [each for each in known if to_us(each.expires_at) > now]
    kept = _trimmed(live, record.token_id)
    for each in known:
        if each not in kept:
            unit.do(b"HDEL", key, each.id.encode())
    if (yield from unit.field(key, name)) is None:
        unit.set_field(key, name, msgspec.msgpack.encode(record))
    yield from unit.commit()


def _trimmed(live: list[SessionRecord], token_id: str) -> list[SessionRecord]:
    """Return the sessions that stay beside a new one of this token, the newest."""
    own = [each for each in live if each.token_id == token_id]
    gone = own[: max(len(own) - SESSIONS_OF_TOKEN_MAX + 1, 0)]
    kept = [each for each in live if each not in gone]
    return kept[max(len(kept) - SESSIONS_MAX + 1, 0) :]


def close_session(env: Env, session_id: str) -> Plan[None]:
    """Forget a session, if it is there."""
    unit = Unit(env)
    unit.do(b"HDEL", env.key("sessions"), session_id.encode("utf-8", "surrogatepass"))
    yield from unit.commit()

"""Replays of many dead letters: a hash of them by id."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.job.replays import BulkReplay, decode_replay, encode_replay, started
from fencepost.core.values.times import from_us
from fencepost.store.interface.control import Advanced, Replay, ReplayList, advanced
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.jobs.control import replay_in
from fencepost.store.sql.control import replay_list

STARTS = b"starts"


def start(env: Env, replay: BulkReplay) -> Plan[BulkReplay]:
    """Keep a replay, unless it is there; some that are over make room."""
    unit = Unit(env)
    now = from_us((yield from unit.start()))
    key = env.key("replays")
    # Another start at the same time changes this field too, and one of the two starts again.
    count = yield from unit.field(env.key("replay_starts"), STARTS)
    (texts,) = yield from unit.read([b"HVALS", key])
    known = [decode_replay(text) for text in texts]
    for each in known:
        if each.id == replay.id:
            return each
    for id_ in started(replay, known, now):
        unit.do(b"HDEL", key, id_.encode())
    kept = replace(replay, started_at=now)
    unit.do(b"HSET", key, kept.id.encode(), encode_replay(kept))
    unit.set_field(env.key("replay_starts"), STARTS, str(int(count or 0) + 1).encode())
    yield from unit.commit()
    return kept


def replays(env: Env) -> Plan[ReplayList]:
    """Return all replays, the newest first."""
    now, texts = yield from read(env, [b"HVALS", env.key("replays")])
    return replay_list(from_us(now), [decode_replay(text) for text in texts])


def advance(env: Env, replay: BulkReplay, requests: Sequence[Replay] = ()) -> Plan[Advanced | None]:
    """Replay dead letters, and keep the replay with what became of them."""
    unit = Unit(env)
    key, name = env.key("replays"), replay.id.encode()
    text = yield from unit.field(key, name)
    if text is None or decode_replay(text).version != replay.version - 1:
        return None
    replies = yield from replay_in(unit, requests)
    result = advanced(replay, replies)
    unit.set_field(key, name, encode_replay(result.replay))
    yield from unit.commit()
    return result

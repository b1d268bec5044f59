"""Whether every index of a Redis store has the jobs that belong there, and no others."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import redis

from fencepost.clock import SystemClock
from fencepost.store.chores import Chores
from fencepost.store.redis.jobs.catalog import Catalog, Env, number_of
from fencepost.store.redis.jobs.rows import decode_document, read_lease
from fencepost.store.redis.jobs.unit import places
from fencepost.store.redis.store import PREFIX

KINDS = ("ready", "leases", "due", "lifetimes", "ended", "dead", "tag", "flow", "correlation")
SHOWN = 3

Index = dict[bytes, set[bytes]]


def complaint(admin: redis.Redis) -> str:
    """Return what is wrong; an empty text if nothing is."""
    env = Env(SystemClock(), PREFIX.encode(), Catalog(), Chores(SystemClock()))
    client: Any = admin  # its answers have no types
    wanted = _wanted(env, client)
    found: Index = {}
    for key in client.scan_iter(match=f"{PREFIX}*", count=1_000, _type="zset"):
        if key[len(PREFIX) :].split(b"\n")[0].decode() in (*KINDS, "held"):
            found[key] = set(client.zrange(key, 0, -1))
    wrong = [
        f"{key!r}: {_told(wanted.get(key, set()), found.get(key, set()))}"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key, set()) != found.get(key, set())
    ]
    return "; ".join(wrong[:SHOWN])


def _wanted(env: Env, client: Any) -> Index:
    """Return what the indexes should have, by the documents."""
    leases = client.hgetall(env.key("lease"))
    wanted: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for number, text in client.hscan_iter(env.key("job"), count=1_000):
        lease = read_lease(leases[number]) if number in leases else None
        for key in places(env, number_of(number), decode_document(text), lease).sorted:
            wanted[key].add(number)
    return wanted


def _told(wanted: set[bytes], found: set[bytes]) -> str:
    parts = (wanted - found, found - wanted)
    missing, more = (sorted(map(number_of, part))[:SHOWN] for part in parts)
    return f"lacks {missing}, has also {more}"

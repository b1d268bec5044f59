"""Whether a Redis store finds every job: in its indexes, lanes and counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import redis

from fencepost.clock import SystemClock
from fencepost.store.chores import Chores
from fencepost.store.redis.documents.document import decode_document, read_lease
from fencepost.store.redis.documents.held_jobs import HeldJobs
from fencepost.store.redis.documents.numbers import number_of
from fencepost.store.redis.documents.places import BLOCK, Places, places
from fencepost.store.redis.jobs.catalog import Catalog, Env

EXACT = (b"leases", b"due", b"ended", b"dead", b"tag", b"flow", b"correlation", b"held")
"""The indexes that have exactly the jobs that belong there."""
COUNTERS = ("counts", "active", "held")
NUMBER_SIZE = 8
SHOWN = 3


def complaint(admin: redis.Redis, prefix: str) -> str:
    """Return what is wrong with the jobs under a prefix; an empty text if nothing is."""
    env = Env(SystemClock(), prefix.encode(), Catalog(), Chores(SystemClock()), HeldJobs())
    client: Any = admin  # its answers have no types
    jobs = _jobs(env, client)
    wrong = [
        *_indexes(env, client, jobs),
        *_lanes(env, client, jobs),
        *_lifetimes(env, client, jobs),
        *_counters(env, client, jobs),
    ]
    return "; ".join(wrong[:SHOWN])


def _jobs(env: Env, client: Any) -> dict[bytes, Places]:
    """Return where each job belongs, by its document."""
    leases = client.hgetall(env.key("lease"))
    return {
        number: places(
            env,
            number_of(number),
            decode_document(text),
            read_lease(leases[number]) if number in leases else None,
        )
        for number, text in client.hscan_iter(env.key("job"), count=1_000)
    }


def _indexes(env: Env, client: Any, jobs: dict[bytes, Places]) -> list[str]:
    wanted: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for number, own in jobs.items():
        for key in own.sorted:
            wanted[key].add(number)
    found = {
        key: set(client.zrange(key, 0, -1))
        for key in client.scan_iter(match=env.prefix + b"*", count=1_000, _type="zset")
        if key.removeprefix(env.prefix).split(b"\n")[0] in EXACT
    }
    return [
        f"{key!r}: {_difference(wanted.get(key, set()), found.get(key, set()))}"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key, set()) != found.get(key, set())
    ]


def _lanes(env: Env, client: Any, jobs: dict[bytes, Places]) -> list[str]:
    """Look for claimable jobs that no claim would find; a lane may also have entries that ended."""
    wanted: defaultdict[bytes, set[tuple[int, bytes]]] = defaultdict(set)
    for number, own in jobs.items():
        if own.lane is not None:
            wanted[own.lane].add((own.run_at, number))
    opened = client.smembers(env.key("open"))
    wrong = [f"lane {lane!r} is not open" for lane in sorted(wanted.keys() - opened)]
    for lane, entries in wanted.items():
        found = {
            (number_of(entry[:NUMBER_SIZE]), entry[NUMBER_SIZE:])
            for entry in client.lrange(env.key("line", lane), 0, -1)
        }
        early = client.zrange(env.key("early", lane), 0, -1, withscores=True)
        found.update((int(at), number) for number, at in early)
        missing = sorted(number_of(number) for _, number in entries - found)
        if missing:
            wrong.append(f"lane {lane!r} lacks {missing[:SHOWN]}")
    return wrong


def _lifetimes(env: Env, client: Any, jobs: dict[bytes, Places]) -> list[str]:
    """Look for jobs that would live too long; a block may also be looked at too early."""
    ends = {
        int(block): int(at)
        for block, at in client.zrange(env.key("lifetimes"), 0, -1, withscores=True)
    }
    late = [
        number_of(number)
        for number, own in jobs.items()
        if own.lifetime is not None
        and own.lifetime < ends.get(number_of(number) // BLOCK, own.lifetime + 1)
    ]
    return [f"jobs that would not expire in time: {sorted(late)[:SHOWN]}"] if late else []


def _counters(env: Env, client: Any, jobs: dict[bytes, Places]) -> list[str]:
    wanted = Counter(each for own in jobs.values() for each in own.counted)
    found = Counter(
        {
            (env.key(name), field): int(count)
            for name in COUNTERS
            for field, count in client.hgetall(env.key(name)).items()
        }
    )
    return [
        f"{key!r} counts {found[key, field]} of {field!r}, not {wanted[key, field]}"
        for key, field in sorted(wanted.keys() | found.keys())
        if wanted[key, field] != found[key, field]
    ]


def _difference(wanted: set[bytes], found: set[bytes]) -> str:
    parts = (wanted - found, found - wanted)
    missing, more = (sorted(map(number_of, part))[:SHOWN] for part in parts)
    return f"lacks {missing}, has also {more}"

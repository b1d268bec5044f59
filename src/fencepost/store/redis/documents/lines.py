"""Reads of lanes: who stands before a job, and since when the first job of a lane is due.

A lane has entries that no longer count, and a job may stand in it twice (see ``lines.lua``). So the
documents are read as well, a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencepost.core.job.lifecycle import State
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.places import places
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, field, number_of, read

AHEAD_MAX = 1_000
"""Counted up to this."""
PORTION = 500
"""Entries that are read at once."""
NUMBER_SIZE = 8
LINE, EARLY = "line", "early"
"""The two parts of a lane: a list, and a sorted set beside it."""


class LaneEntry(NamedTuple):
    """When a job is due and its number, which is the order within a lane, and the lane."""

    at: int
    seq: int
    lane: bytes


def jobs_ahead(env: Env, kept: Kept) -> Plan[int]:
    """Return how many jobs of its queue and type are claimed before *kept*."""
    if kept.state is not State.SCHEDULED:
        return 0
    document = kept.document
    ahead: set[int] = set()
    for priority in range(document.priority + 1):
        lane = field(priority, document.queue_name, document.type)
        is_own = priority == document.priority
        end = LaneEntry(document.run_at, kept.seq, lane) if is_own else None
        for part in (LINE, EARLY):
            yield from _count(env, lane, part, end, ahead)
    return min(len(ahead), AHEAD_MAX)


def _count(env: Env, lane: bytes, part: str, end: LaneEntry | None, ahead: set[int]) -> Plan[None]:
    """Add the jobs of a part of a lane, up to an entry if one is given."""
    start = 0
    while len(ahead) < AHEAD_MAX:
        _, answer = yield from read(env, _command(env, lane, part, start, PORTION))
        before = [each for each in _entries(lane, part, answer) if end is None or each < end]
        ahead.update(each.seq for each in (yield from _standing(env, before)))
        start += PORTION
        if len(before) < PORTION:
            return


def first_due(env: Env, lanes: Sequence[bytes]) -> Plan[dict[bytes, int]]:
    """Return since when the first job of each lane is due; nothing of a lane that has none."""
    if not lanes:
        return {}
    parts = [(lane, part) for lane in lanes for part in (LINE, EARLY)]
    _, *answers = yield from read(env, *(_command(env, *each, 0, 1) for each in parts))
    heads = [_entries(*each, answer) for each, answer in zip(parts, answers, strict=True)]
    standing = set((yield from _standing(env, [head for found in heads for head in found])))
    first: dict[bytes, int] = {}
    for (lane, part), found in zip(parts, heads, strict=True):
        if found and found[0] not in standing:
            found = yield from _next(env, lane, part)
        if found:
            first[lane] = min(first.get(lane, found[0].at), found[0].at)
    return first


def _next(env: Env, lane: bytes, part: str) -> Plan[list[LaneEntry]]:
    """Return the entries of a part of a lane that count, from the first of them on."""
    start = 0
    while True:
        _, answer = yield from read(env, _command(env, lane, part, start, PORTION))
        entries = _entries(lane, part, answer)
        standing = yield from _standing(env, entries)
        if standing or len(entries) < PORTION:
            return standing
        start += PORTION


def _command(env: Env, lane: bytes, part: str, start: int, count: int) -> list[Any]:
    place = [env.key(part, lane), start, start + count - 1]
    return [b"LRANGE", *place] if part == LINE else [b"ZRANGE", *place, b"WITHSCORES"]


def _entries(lane: bytes, part: str, answer: list[bytes]) -> list[LaneEntry]:
    if part == LINE:
        split = ((own[:NUMBER_SIZE], own[NUMBER_SIZE:]) for own in answer)
        return [LaneEntry(number_of(at), number_of(number), lane) for at, number in split]
    pairs = zip(answer[::2], answer[1::2], strict=True)
    return [LaneEntry(int(float(at)), number_of(number), lane) for number, at in pairs]


def _standing(env: Env, entries: Sequence[LaneEntry]) -> Plan[list[LaneEntry]]:
    """Return the entries that count: the documents of their jobs say the same."""
    jobs = yield from Unit(env).jobs(each.seq for each in entries)
    found: list[LaneEntry] = []
    for each in entries:
        kept = jobs.get(each.seq)
        if kept is not None:
            own = places(env, each.seq, kept.document, kept.lease)
            if (own.lane, own.run_at) == (each.lane, each.at):
                found.append(each)
    return found

"""A store as a whole: queues, types, and jobs in the order of their end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fencepost.core.job.lifecycle import State
from fencepost.core.stats.statistics import EndedJob
from fencepost.core.values.times import from_us, from_us_or_none, to_us
from fencepost.store.interface.records.overview import EndedPage, QueueView, TypeView
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.lines import first_due
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, number_of, read
from fencepost.store.redis.records.settings import paused, queue_limits, type_limits
from fencepost.store.sql.codec import BY_NUMBER
from fencepost.store.sql.paging import pack, unpack
from fencepost.store.sql.records.overview import queue_views, type_views


def lane_counts(env: Env) -> Plan[list[tuple[str, str, State | None, int]]]:
    """Return queue, type, state and count; no state for a lane, which may have no jobs."""
    _, lanes, flat = yield from read(
        env, [b"HKEYS", env.key("lanes")], [b"HGETALL", env.key("counts")]
    )
    names = [name.decode().split("\n") for name in lanes]
    rows: list[tuple[str, str, State | None, int]] = [(*name, None, 0) for name in names]
    for name, text in zip(flat[::2], flat[1::2], strict=True):
        number, queue, type_ = name.decode().split("\n")
        rows.append((queue, type_, BY_NUMBER[int(number)], int(text)))
    return rows


def queues(env: Env, names: Sequence[str] | None = None) -> Plan[list[QueueView]]:
    """Return every queue that has had a job or a setting, or those of *names*."""
    counts: dict[str, dict[State, int]] = {}
    claimable: dict[str, dict[str, int]] = {}
    for queue, type_, state, total in (yield from lane_counts(env)):
        by_state = counts.setdefault(queue, {})
        if state is not None:
            by_state[state] = by_state.get(state, 0) + total
        if state is State.SCHEDULED:
            claimable.setdefault(queue, {})[type_] = total
    halted = yield from paused(env, Scope.QUEUE)
    limits = yield from queue_limits(env)
    oldest = {queue: from_us(at) for queue, at in (yield from _oldest(env)).items()}
    return queue_views(counts, claimable, halted, limits, oldest, names)


def _oldest(env: Env) -> Plan[dict[str, int]]:
    """Return since when the oldest claimable job of each queue is due."""
    _, lanes = yield from read(env, [b"SMEMBERS", env.key("open")])
    oldest: dict[str, int] = {}
    for lane, at in (yield from first_due(env, sorted(lanes))).items():
        queue = lane.decode().split("\n")[1]
        oldest[queue] = min(oldest.get(queue, at), at)
    return oldest


def types(env: Env, names: Sequence[str] | None = None) -> Plan[list[TypeView]]:
    """Return every type that has had a job or a setting, or those of *names*."""
    counts: dict[str, dict[State, int]] = {}
    for _, type_, state, total in (yield from lane_counts(env)):
        by_state = counts.setdefault(type_, {})
        if state is not None:
            by_state[state] = by_state.get(state, 0) + total
    halted = yield from paused(env, Scope.TYPE)
    limits = yield from type_limits(env)
    return type_views(counts, halted, limits, names)


def ended(
    env: Env, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
) -> Plan[EndedPage]:
    """Return one page of the jobs that ended at *since* or later."""
    unit = Unit(env)
    key, first = env.key("ended"), to_us(since)
    last = None if after is None else unpack(after)
    seqs: list[int] = []
    offset = 0
    while len(seqs) <= limit:
        if newest_first:
            top = b"+inf" if last is None else str(last[0]).encode()
            part = [b"ZREVRANGEBYSCORE", key, top, first]
        else:
            bottom = first if last is None else max(first, last[0])
            part = [b"ZRANGEBYSCORE", key, bottom, b"+inf"]
        (flat,) = yield from unit.read([*part, b"WITHSCORES", b"LIMIT", offset, limit + 1])
        if not flat:
            break
        offset += len(flat) // 2
        for number, score in zip(flat[::2], flat[1::2], strict=True):
            place = (int(float(score)), number_of(number))
            if last is None or (place < last if newest_first else place > last):
                seqs.append(place[1])
    jobs = yield from unit.jobs(seqs[: limit + 1])
    found = [_ended(kept) for kept in jobs.values() if kept.document.completed_at is not None]
    shown = found[:limit]
    return EndedPage(shown, shown[-1].position if len(found) > limit else None)


def _ended(kept: Kept) -> EndedJob:
    document = kept.document
    assert document.completed_at is not None
    return EndedJob(
        id=kept.id,
        type=kept.type,
        queue=kept.queue,
        state=kept.state,
        attempt=document.attempt,
        created_at=from_us(document.created_at),
        scheduled_at=from_us_or_none(document.scheduled_at),
        started_at=from_us_or_none(document.started_at),
        completed_at=from_us(document.completed_at),
        position=pack(document.completed_at, kept.seq),
    )

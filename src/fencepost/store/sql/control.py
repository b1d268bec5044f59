"""What the plans of operators share: jobs one by one, found by id; replays.

A replay of many dead letters is one row, which is locked while jobs are made for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.job.replays import BulkReplay, decode_replay, encode_replay, started
from fencepost.core.values.names import wanted_ids
from fencepost.store.interface.control import (
    Advanced,
    NotFound,
    Replay,
    ReplayList,
    ReplayReply,
    advanced,
)
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import Codec, E, SqlEnv

A = TypeVar("A")
B = TypeVar("B")
N = TypeVar("N", bound="NamesJob")


class NamesJob(Protocol):
    """A request about one job."""

    @property
    def job_id(self) -> str: ...


def each(items: Iterable[A], plan_of: Callable[[A], Plan[B]]) -> Plan[list[B]]:
    """Run one plan after the other, for operations on few jobs."""
    replies: list[B] = []
    for item in items:
        reply = yield from plan_of(item)
        replies += [reply]
    return replies


def each_found(
    codec: Codec, sql: str, items: Iterable[N], plan_of: Callable[[N, Row], Plan[B]]
) -> Plan[list[B | NotFound]]:
    """Do the same with the row that *sql* finds for each job, or reply that there is none."""

    def found(item: N) -> Plan[B | NotFound]:
        row = yield from one(codec, sql, item.job_id)
        return NotFound(item.job_id) if row is None else (yield from plan_of(item, row))

    return each(items, found)


def one(codec: Codec, sql: str, job_id: str) -> Plan[Row | None]:
    """Return the row that *sql* finds for a job id; None for no row, and for an invalid id."""
    for text in wanted_ids([job_id]).values():
        rows = yield Statement(sql, (codec.encode_id(text),))
        if rows:
            return rows[0]
    return None


def policy_of(env: SqlEnv, number: int) -> Plan[Policy]:
    """Return a policy; the default one for one that cannot be read."""
    policies = yield from env.catalog.policies([number])
    return policies.get(number, DEFAULT_POLICY)


class ReplaySql(NamedTuple):
    """Statements about replays, with their parameters."""

    lock: str
    """lets nobody else start a replay until the transaction ends"""
    all: str
    """now; returns one row a replay, or one without a body, each after the time"""
    find: str
    """id; returns the body, which nobody else changes until the transaction ends"""
    put: str
    """id, body; adds or replaces"""
    forget: str
    """id"""


class ReplayPlans(NamedTuple, Generic[E]):
    sql: ReplaySql
    codec: Codec
    replay: Callable[[E, Sequence[str | Replay]], Plan[list[ReplayReply]]]

    def start(self, env: E, replay: BulkReplay) -> Plan[BulkReplay]:
        """Keep a replay, unless it is there; some that are over make room."""
        yield Statement(self.sql.lock)
        now, known = self._decoded((yield Statement(self.sql.all, (env.now,))))
        for each in known:
            if each.id == replay.id:
                return each
        for id_ in started(replay, known, now):
            yield Statement(self.sql.forget, (self.codec.encode_id(id_),))
        kept = replace(replay, started_at=now)
        yield from self._put(kept)
        return kept

    def replays(self, env: E) -> Plan[ReplayList]:
        """Return all replays, the newest first."""
        now, known = self._decoded((yield Statement(self.sql.all, (env.now,), alone=True)))
        return replay_list(now, known)

    def advance(
        self, env: E, replay: BulkReplay, requests: Sequence[Replay] = ()
    ) -> Plan[Advanced | None]:
        """Replay dead letters, and keep the replay with what became of them."""
        rows: Sequence[Row] = ()
        for text in wanted_ids([replay.id]).values():
            rows = yield Statement(self.sql.find, (self.codec.encode_id(text),))
        if not rows or decode_replay(bytes(rows[0][0])).version != replay.version - 1:
            return None
        replies = (yield from self.replay(env, requests)) if requests else []
        result = advanced(replay, replies)
        yield from self._put(result.replay)
        return result

    def _put(self, replay: BulkReplay) -> Plan[None]:
        params = (self.codec.encode_id(replay.id), encode_replay(replay))
        yield Statement(self.sql.put, params)

    def _decoded(self, rows: Sequence[Row]) -> tuple[datetime, list[BulkReplay]]:
        known = [decode_replay(bytes(body)) for _, body in rows if body is not None]
        return self.codec.decode_time(rows[0][0]), known


def replay_list(now: datetime, known: Sequence[BulkReplay]) -> ReplayList:
    """Return *known* with the newest first."""
    order = sorted(known, key=lambda each: (each.started_at or now, each.id), reverse=True)
    return ReplayList(now, order)

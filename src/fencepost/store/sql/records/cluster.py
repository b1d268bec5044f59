"""Which workers have announced themselves, and which one leads: plans over the SQL of an engine."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fencepost.core.bounds import WORKER_GONE, WORKER_SILENCE, WORKERS_GONE_MAX
from fencepost.core.values.times import seconds_to_us
from fencepost.store.interface.records.cluster import CHORES_TERM, Term, WorkerInfo
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import Codec, SqlEnv, encode_json

FORGOTTEN_US = seconds_to_us(WORKER_GONE)
"""A worker that was silent for so long is forgotten."""

_workers = msgspec.json.Decoder(WorkerInfo)


def encode_worker(worker: WorkerInfo) -> str:
    """Return what a worker says of itself, as the table keeps it."""
    plain = msgspec.structs.replace(worker, seen_at=None, is_leader=False, has_stopped=False)
    return encode_json(plain)


class ClusterSql(NamedTuple):
    """Statements about workers and terms, with their parameters."""

    retire: str
    """now, id"""
    workers: str
    """now, microseconds of silence after which a worker is not listed, the leader's term; returns
    what it said, when, and whether it leads"""
    gone: str
    """now, microseconds after which one is forgotten, microseconds of silence, how many"""
    lead: str
    """now, name of the term, worker, microseconds; returns the end of the term if it was taken"""
    resign: str
    """name of the term, worker"""


class ClusterPlans(NamedTuple):
    """What the engines share; each announces a worker in its own way."""

    sql: ClusterSql
    codec: Codec

    def retire(self, env: SqlEnv, worker_id: str) -> Plan[None]:
        """List a worker that has stopped as gone."""
        yield Statement(self.sql.retire, (env.now, worker_id), alone=True)

    def workers(self, env: SqlEnv) -> Plan[list[WorkerInfo]]:
        """Return the workers that announced themselves lately."""
        params = (env.now, seconds_to_us(WORKER_SILENCE), CHORES_TERM)
        rows = yield Statement(self.sql.workers, params, alone=True)
        return [
            msgspec.structs.replace(
                _workers.decode(info),
                seen_at=self.codec.decode_time(seen_at),
                is_leader=bool(is_leader),
            )
            for info, seen_at, is_leader in rows
        ]

    def gone(self, env: SqlEnv) -> Plan[list[WorkerInfo]]:
        """Return the workers that stopped or fell silent lately."""
        params = (env.now, FORGOTTEN_US, seconds_to_us(WORKER_SILENCE), WORKERS_GONE_MAX)
        rows = yield Statement(self.sql.gone, params, alone=True)
        return [
            msgspec.structs.replace(_workers.decode(info), seen_at=self.codec.decode_time(seen_at))
            for info, seen_at in rows
        ]

    def lead(self, env: SqlEnv, name: str, worker: str, ttl: float) -> Plan[Term | None]:
        """Take or keep a term; None while another worker holds it."""
        params = (env.now, name, worker, seconds_to_us(ttl))
        rows = yield Statement(self.sql.lead, params, alone=True)
        return Term(name, worker, self.codec.decode_time(rows[0][0])) if rows else None

    def resign(self, env: SqlEnv, name: str, worker: str) -> Plan[None]:
        """Give up a term, if *worker* holds it."""
        yield Statement(self.sql.resign, (name, worker), alone=True)

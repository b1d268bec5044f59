"""Refused writes: plans over the SQL of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.core.bounds import REFUSALS_MAX, REFUSALS_OF_JOB_MAX
from fencepost.core.refusals import NewRefusal, RefusedWrite
from fencepost.core.values.names import wanted_ids
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import Codec, SqlEnv


class RefusalSql(NamedTuple):
    """Statements about refused writes, with their parameters."""

    record: str
    """now, operation, the fence that was held, the id of the job"""
    trim_job: str
    """the id of the job twice, how many to keep"""
    trim: str
    """how many to keep in all"""
    list: str
    """the id of the job"""
    total: str


class RefusalPlans(NamedTuple):
    sql: RefusalSql
    codec: Codec

    def record(self, env: SqlEnv, refusals: Sequence[NewRefusal]) -> Plan[None]:
        """Keep refusals, and forget those that are too many."""
        known = wanted_ids([each.job_id for each in refusals])
        texts = {*known.values()}
        for each in refusals:
            if each.job_id.lower() in texts:
                id_ = self.codec.encode_id(each.job_id.lower())
                params = (env.now, each.operation, each.fence_held, id_)
                yield Statement(self.sql.record, params)
                yield Statement(self.sql.trim_job, (id_, id_, REFUSALS_OF_JOB_MAX))
        yield Statement(self.sql.trim, (REFUSALS_MAX,))

    def refusals(self, env: SqlEnv, job_id: str) -> Plan[list[RefusedWrite]]:
        """Return the refusals of a job, the newest first."""
        found = []
        for text in wanted_ids([job_id]).values():
            rows = yield Statement(self.sql.list, (self.codec.encode_id(text),))
            for at, operation, fence_held, fence_present in rows:
                found.append(
                    RefusedWrite(
                        at=self.codec.decode_time(at),
                        operation=operation,
                        fence_held=fence_held,
                        fence_present=fence_present,
                    )
                )
        return found

    def total(self, env: SqlEnv) -> Plan[int]:
        """Return how many refusals were recorded."""
        ((total,),) = yield Statement(self.sql.total)
        return int(total)

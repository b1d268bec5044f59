"""Reading jobs in SQLite: the SQL for the plans in ``store/sql/read.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.core.values.names import id_bytes
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codec import RUNNING, SCHEDULED
from fencepost.store.sql.read import ReadPlans, ReadSql
from fencepost.store.sql.settings import SettingPlans
from fencepost.store.sqlite.jobs import search
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.rows import CODEC, JOB_COLUMNS, values
from fencepost.store.sqlite.limits.concurrency import active
from fencepost.store.sqlite.limits.rates import usage_of
from fencepost.store.sqlite.records.cluster import CLUSTER


def _by_ids(sql: str, ids: Sequence[str], *before: Any) -> Plan[list[Row]]:
    rows: list[Row] = []
    for text, params in values(sql, [(id_bytes(each),) for each in ids]):
        rows += yield Statement(text, (*before, *params))
    return rows


SETTINGS = SettingPlans(schema="", mark="?")

READER: ReadPlans[Env] = ReadPlans(
    ReadSql(
        get=f"select {JOB_COLUMNS}, ? from jobs where id in ({{values}})",
        show=f"""
select {JOB_COLUMNS}, ? from jobs where seq in (select value from json_each(?)) order by seq desc
""",
        ids="select seq, id from jobs where seq in (select value from json_each(?))",
        locate="""
select jobs.id, lanes.queue from jobs join lanes on lanes.lane = jobs.lane
where jobs.id in ({values})
""",
        last_attempt="""
select seq, state, lease_version, attempt, worker, started_at, completed_at from jobs where id = ?
""",
        past_attempts="""
select lease_version, number, worker, outcome, started_at, ended_at, failure
from attempts where seq = ? order by lease_version
""",
        running=f"""
select coalesce(sum(lanes.queue = ?), 0), count(*), ? from jobs join lanes on lanes.lane = jobs.lane
where jobs.state = {RUNNING} and jobs.lease_expires_at > ?
""",
        jobs_ahead=f"""
select count(*) from (
  select 1 from jobs as other indexed by jobs_ready, jobs as this
  where this.id = ? and other.state = {SCHEDULED} and other.lane = this.lane
    and (other.priority, other.run_at, other.seq) < (this.priority, this.run_at, this.seq)
  limit 1000
)
""",
        dependencies="""
select child.id, parent.id, lanes.type, parent.state, parent.node, {result}
from jobs as child
cross join dependencies on dependencies.child = child.seq
cross join jobs as parent on parent.seq = dependencies.parent
cross join lanes on lanes.lane = parent.lane
where child.id in ({values}) order by child.seq, dependencies.place
""",
        result="parent.result, parent.result_encoding",
        no_result="null, null",
        dependents="""
select parent.id, child.id
from jobs as parent
cross join dependencies on dependencies.parent = parent.seq
cross join jobs as child on child.seq = dependencies.child
where parent.id in ({values}) order by child.seq
""",
        dead_letters="""
select jobs.seq, jobs.id, lanes.type, lanes.queue, jobs.state, jobs.attempt, jobs.failure,
  jobs.completed_at
from jobs indexed by jobs_dead join lanes on lanes.lane = jobs.lane
where jobs.is_dead_letter = 1 and {conditions}
order by jobs.completed_at desc, jobs.seq desc limit ?
""",
        of_type="lanes.type = ?",
        of_queues="lanes.queue in (select value from json_each(?))",
        older="(jobs.completed_at, jobs.seq) < (?, ?)",
    ),
    CODEC,
    CLUSTER,
    SETTINGS,
    by_ids=_by_ids,
    search=search.find,
    ahead_params=lambda job: (id_bytes(job.id),),
    usage_of=usage_of,
    active=active,
)

"""Refused writes in SQLite: the SQL for the plans in ``store/sql/records/refusals.py``."""

from __future__ import annotations

from fencepost.store.sql.records.refusals import RefusalPlans, RefusalSql
from fencepost.store.sqlite.jobs.rows import CODEC

REFUSALS = RefusalPlans(
    RefusalSql(
        record="""
insert into refusals(job_id, at, operation, fence_held, fence_present)
select id, ?, ?, ?, lease_version from jobs where id = ?
""",
        trim_job="""
delete from refusals where job_id = ? and number not in (
  select number from refusals where job_id = ? order by number desc limit ?
)
""",
        trim="delete from refusals where number <= (select max(number) from refusals) - ?",
        list="""
select at, operation, fence_held, fence_present from refusals
where job_id = ? order by number desc
""",
        total="select coalesce(max(number), 0) from refusals",
    ),
    CODEC,
)

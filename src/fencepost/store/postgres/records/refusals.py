"""Refused writes in PostgreSQL: the SQL for the plans in ``store/sql/records/refusals.py``."""

from __future__ import annotations

from fencepost.store.postgres.jobs.rows import CODEC
from fencepost.store.sql.records.refusals import RefusalPlans, RefusalSql

REFUSALS = RefusalPlans(
    RefusalSql(
        record="""
insert into fencepost.refusals(job_id, at, operation, fence_held, fence_present)
select id, coalesce(%s::timestamptz, clock_timestamp()), %s::text, %s::bigint,
  coalesce(lease_version, 0)
from fencepost.jobs where id = %s::uuid
""",
        trim_job="""
delete from fencepost.refusals where job_id = %s::uuid and number not in (
  select number from fencepost.refusals where job_id = %s::uuid order by number desc limit %s
)
""",
        trim="""
delete from fencepost.refusals
where number <= (select max(number) from fencepost.refusals) - %s
""",
        list="""
select at, operation, fence_held, fence_present from fencepost.refusals
where job_id = %s::uuid order by number desc
""",
        total="select coalesce(max(number), 0) from fencepost.refusals",
    ),
    CODEC,
)

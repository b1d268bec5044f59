"""Replays in PostgreSQL: the SQL for the plans in ``store/sql/control.py``."""

from __future__ import annotations

from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.control import replay
from fencepost.store.postgres.jobs.rows import CODEC
from fencepost.store.sql.control import ReplayPlans, ReplaySql

REPLAYS: ReplayPlans[Env] = ReplayPlans(
    ReplaySql(
        lock="lock table fencepost.replays in share row exclusive mode",
        all="""
select given.now, body
from (select coalesce(%s::timestamptz, clock_timestamp()) as now) as given
left join fencepost.replays on true
""",
        find="select body from fencepost.replays where id = %s::uuid for update",
        put="""
insert into fencepost.replays(id, body) values (%s::uuid, %s)
on conflict (id) do update set body = excluded.body
""",
        forget="delete from fencepost.replays where id = %s::uuid",
    ),
    CODEC,
    replay,
)

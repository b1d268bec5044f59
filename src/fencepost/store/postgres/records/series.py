"""Samples of counts in PostgreSQL: the SQL for the plans in ``store/sql/records/series.py``."""

from __future__ import annotations

from fencepost.store.postgres.jobs.rows import CODEC
from fencepost.store.postgres.records.overview import OVERVIEW
from fencepost.store.sql.records.series import SeriesPlans, SeriesSql

SERIES = SeriesPlans(
    SeriesSql(
        counts=OVERVIEW.sql.counts.format(condition="true"),
        pruned="select queue, type, state, count from fencepost.pruned",
        record="""
insert into fencepost.series(step, at, body) values (%s, %s, %s)
on conflict (step, at) do update set body = excluded.body
""",
        trim="""
delete from fencepost.series
where step = %s and at <= %s::timestamptz - %s::bigint * interval '1 microsecond'
""",
        read="""
select at, body from fencepost.series where step = %s and at > %s and at <= %s order by at
""",
    ),
    CODEC,
)

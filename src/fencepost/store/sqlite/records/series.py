"""Samples of counts in SQLite: the SQL for the plans in ``store/sql/records/series.py``."""

from __future__ import annotations

from fencepost.store.sql.records.series import SeriesPlans, SeriesSql
from fencepost.store.sqlite.jobs.rows import CODEC
from fencepost.store.sqlite.records.overview import OVERVIEW

SERIES = SeriesPlans(
    SeriesSql(
        counts=OVERVIEW.sql.counts.format(condition="true"),
        pruned="select queue, type, state, count from pruned",
        record="insert or replace into series(step, at, body) values (?, ?, ?)",
        trim="delete from series where step = ? and at <= ? - ?",
        read="select at, body from series where step = ? and at > ? and at <= ? order by at",
    ),
    CODEC,
)

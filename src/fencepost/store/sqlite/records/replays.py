"""Replays in SQLite: the SQL for the plans in ``store/sql/control.py``."""

from __future__ import annotations

from fencepost.store.sql.control import ReplayPlans, ReplaySql
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.control import replay
from fencepost.store.sqlite.jobs.rows import CODEC

REPLAYS: ReplayPlans[Env] = ReplayPlans(
    ReplaySql(
        lock="select 1",  # a transaction that writes is alone
        all="select given.now, body from (select ? as now) as given left join replays on true",
        find="select body from replays where id = ?",
        put="insert or replace into replays(id, body) values (?, ?)",
        forget="delete from replays where id = ?",
    ),
    CODEC,
    replay,
)

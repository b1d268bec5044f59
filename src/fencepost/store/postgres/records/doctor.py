"""What an operator should know about this server and database: durability first."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg

from fencepost.core.values.duration import format_duration
from fencepost.store.interface.overview import Finding
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.engine.schema import OLDEST_SERVER
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import utc
from fencepost.store.postgres.records.cluster import workers
from fencepost.store.postgres.records.rights import rights

SKEW_MAX = timedelta(seconds=1)
OLD = timedelta(minutes=5)
DEAD_ROWS_MAX = 100_000
"""Autovacuum comes for the hot tables long before."""
SHOWN_MAX = 5
NOTIFY_TIMEOUT = 2.0

SETTINGS = """
select name, setting from pg_settings where name in (
  'server_version', 'server_version_num', 'fsync', 'full_page_writes', 'synchronous_commit',
  'synchronous_standby_names', 'default_transaction_read_only', 'autovacuum'
)
"""
PLACE = """
select current_database(), pg_is_in_recovery(), pg_has_role('pg_read_all_stats', 'usage')
"""
VERSION = "select max(version) from fencepost.schema_version"
NOW = "select clock_timestamp()"
EXPIRED = """
select coalesce(sum(cardinality(seqs)), 0)::bigint from fencepost.lease
where expires_at <= coalesce(%s::timestamptz, clock_timestamp())
"""
WAITING_TYPES = """
select l.type, sum(t.count)::bigint
from fencepost.counts t join fencepost.lane l on l.lane = t.lane
where t.state = 1 group by 1 having sum(t.count) > 0 order by 1
"""
# A look into the index for each lane that jobs refer to.
MISSING_LANES = """
with recursive used(lane) as (
  (select lane from fencepost.job order by lane limit 1)
  union all
  select (select job.lane from fencepost.job where job.lane > used.lane order by job.lane limit 1)
  from used where used.lane is not null
)
select count(*) from used
where lane is not null and not exists (select 1 from fencepost.lane where lane.lane = used.lane)
"""
# A transaction of another database holds vacuum back here only if a standby reports it.
OLD_TRANSACTIONS = """
select 'session ' || pid || coalesce(' (' || nullif(application_name, '') || ')', '')
  || coalesce(', ' || state, ''), clock_timestamp() - xact_start
from pg_stat_activity
where xact_start < clock_timestamp() - %s::interval and pid <> pg_backend_pid()
  and (datname = current_database() or (datname is null and backend_xmin is not null))
  and backend_type in ('client backend', 'walsender')
union all
select 'prepared transaction ' || gid, clock_timestamp() - prepared
from pg_prepared_xacts
where prepared < clock_timestamp() - %s::interval and database = current_database()
order by 2 desc limit %s
"""
# The marks below which claims do not look move past transactions that are over, see `tidy`; numbers
# are given to those of all databases in turn. What only reads has none.
OLD_WRITERS = """
select 'session ' || pid || coalesce(' (' || nullif(application_name, '') || ')', '')
  || coalesce(', ' || state, ''), datname::text, clock_timestamp() - xact_start
from pg_stat_activity
where xact_start < clock_timestamp() - %s::interval and pid <> pg_backend_pid()
  and backend_xid is not null and datname <> current_database()
union all
select 'prepared transaction ' || gid, database::text, clock_timestamp() - prepared
from pg_prepared_xacts
where prepared < clock_timestamp() - %s::interval and database <> current_database()
order by 3 desc limit %s
"""
IDLE_SLOTS = """
select slot_name::text from pg_replication_slots
where not active and (xmin is not null or catalog_xmin is not null) order by 1 limit %s
"""
DEAD_ROWS = """
select relname::text, n_live_tup, n_dead_tup from pg_stat_user_tables
where schemaname = 'fencepost' and relname in ('ready', 'lease', 'tally', 'delayed')
  and n_dead_tup > greatest(%s, n_live_tup)
order by 1
"""


def inspect(env: Env) -> Plan[list[Finding]]:
    """Look at the server, and at whether notifications arrive."""
    # Only connections of their own can show that, opened by the thread that runs this.
    connections = env.connections
    with connections.open(connections.address.listen) as listening:
        telling = connections.open()
        with telling:
            channel = f"fencepost_doctor_{env.clock.new_id().hex()}"
            heard = hear(listening, telling, channel=channel)
    findings = yield from examine(env, is_pooled=telling.is_pooled)
    return [*findings, heard]


def examine(env: Env, *, is_pooled: bool | None = None) -> Plan[list[Finding]]:
    """Look at the server, its settings, what slows it down, and jobs that wait for nobody.

    *is_pooled* says what ``Session.is_pooled`` found; None if nobody asked.
    """
    settings: dict[str, str] = dict((yield Statement(SETTINGS)))
    ((database, is_standby, sees_others),) = yield Statement(PLACE)
    findings = [_durability(settings), _server(settings)]
    findings += _writable(settings, is_standby=is_standby)
    ((version,),) = yield Statement(VERSION)
    findings.append(Finding("ok", "schema", f"schema version {version} in database {database}"))
    if is_pooled is not None:
        findings.append(_pooler(is_pooled))
    if env.now is None:  # a clock that a test has stopped is nobody's
        findings.append((yield from _clock(env)))
    findings += yield from rights()
    findings += yield from _vacuum(settings, sees_others=sees_others)
    ((missing,),) = yield Statement(MISSING_LANES)
    findings += _missing_lanes(missing)
    ((orphans,),) = yield Statement(EXPIRED, (env.now,))
    findings.append(_orphans(orphans))
    findings += yield from _unserved(env)
    return findings


# Durability (promise 6 of the guarantees): what a killed server and a power cut can take back.


def _durability(settings: dict[str, str]) -> Finding:
    if settings["fsync"] != "on":
        return Finding(
            "fail",
            "durability",
            "durability process (fsync = off): what was acknowledged survives a killed worker or "
            "caller; a power cut may destroy the whole database (set fsync = on)",
        )
    if settings["synchronous_commit"] == "off":
        return Finding(
            "warn",
            "durability",
            "durability process (synchronous_commit = off): a power cut or a crash of the server "
            "may take back the last moments of what was acknowledged (set synchronous_commit = on)",
        )
    if settings["full_page_writes"] != "on":
        return Finding(
            "warn",
            "durability",
            "durability depends on the disk (full_page_writes = off): a power cut may damage the "
            "database unless the file system never tears a page (set full_page_writes = on)",
        )
    standby = settings["synchronous_standby_names"]
    if standby and settings["synchronous_commit"] != "local":
        return Finding(
            "ok",
            "durability",
            "durability power: what was acknowledged survives a killed server, a power cut, and "
            f"the loss of the primary (synchronous standby: {standby})",
        )
    return Finding(
        "ok",
        "durability",
        "durability power: what was acknowledged survives a killed server and a power cut; "
        "a failover to a standby that lags behind may take back the last moments",
    )


def _server(settings: dict[str, str]) -> Finding:
    text = f"PostgreSQL {settings['server_version']}"
    if int(settings["server_version_num"]) < OLDEST_SERVER:
        return Finding("fail", "server_version", f"{text}: Fencepost needs 13 or newer")
    return Finding("ok", "server_version", text)


def _writable(settings: dict[str, str], *, is_standby: bool) -> list[Finding]:
    if is_standby:
        text = "this server is a standby: nothing can be written; name the primary in the URL"
    elif settings["default_transaction_read_only"] == "on":
        text = "transactions here are read-only (default_transaction_read_only = on)"
    else:
        return []
    return [Finding("fail", "read_only", text)]


def _pooler(is_pooled: bool) -> Finding:
    if not is_pooled:
        return Finding("ok", "pooler", "connected to the server itself")
    return Finding(
        "note",
        "pooler",
        "connected through a pooler: timeouts are the server's own, and news need a direct way "
        "(?listen=… in the URL)",
    )


def _clock(env: Env) -> Plan[Finding]:
    """Compare the clocks; half the way there and back is taken off."""
    before = env.clock.now()
    ((server,),) = yield Statement(NOW)
    after = env.clock.now()
    skew = abs(utc(server) - _middle(before, after))
    if skew <= SKEW_MAX:
        return Finding("ok", "clock", "this machine's clock agrees with the server's")
    return Finding(
        "warn",
        "clock",
        f"this machine's clock is {_shown(skew)} off the server's, which judges every lease; "
        f"a run_at that is computed here is off by as much",
    )


def _middle(before: datetime, after: datetime) -> datetime:
    return before + (after - before) / 2


def _shown(duration: timedelta) -> str:
    return format_duration(float(round(duration.total_seconds())))


# What keeps vacuum from removing dead rows, and whether there are too many.


def _vacuum(settings: dict[str, str], *, sees_others: bool) -> Plan[list[Finding]]:
    findings: list[Finding] = []
    if not sees_others:
        text = "transactions of other roles cannot be seen; grant pg_read_all_stats to see them"
        findings.append(Finding("note", "old_snapshot", text))
    if settings["autovacuum"] != "on":
        text = "autovacuum is off: the tables of the queue grow without end (set autovacuum = on)"
        findings.append(Finding("warn", "autovacuum", text))
    old = yield Statement(OLD_TRANSACTIONS, (OLD, OLD, SHOWN_MAX))
    findings += [_old_transaction(row) for row in old]
    writers = yield Statement(OLD_WRITERS, (OLD, OLD, SHOWN_MAX))
    findings += [_old_writer(row) for row in writers]
    findings += [
        Finding(
            "warn",
            "old_snapshot",
            f"replication slot {name!r} is not in use and holds vacuum back; drop it if its "
            f"standby is gone",
        )
        for (name,) in (yield Statement(IDLE_SLOTS, (SHOWN_MAX,)))
    ]
    if not findings:
        text = "no transaction is older than 5 minutes, nothing holds vacuum or claims back"
        findings.append(Finding("ok", "old_snapshot", text))
    bloated = yield Statement(DEAD_ROWS, (DEAD_ROWS_MAX,))
    findings += [_bloat(row) for row in bloated]
    if not bloated:
        findings.append(Finding("ok", "bloat", "vacuum keeps up with the tables of the queue"))
    return findings


def _old_transaction(row: Row) -> Finding:
    who, age = row
    return Finding(
        "warn",
        "old_snapshot",
        f"{who} has been in a transaction for {_shown(age)} and holds vacuum back; end it if "
        f"nobody needs it",
    )


def _old_writer(row: Row) -> Finding:
    who, database, age = row
    return Finding(
        "warn",
        "old_writer",
        f"{who} has been writing to database {database!r} for {_shown(age)}; until it ends, claims "
        f"here step over every job that has gone since; end it if nobody needs it",
    )


def _bloat(row: Row) -> Finding:
    table, live, dead = row
    return Finding(
        "warn",
        "bloat",
        f"table fencepost.{table} has {dead:,} dead rows beside {live:,} live ones; look for old "
        f"transactions, then `vacuum fencepost.{table}`",
    )


# Jobs that wait for nobody.


def _missing_lanes(count: int) -> list[Finding]:
    if count == 0:
        return []
    return [
        Finding(
            "fail",
            "missing_lanes",
            f"jobs refer to {count} lanes that are missing, and are neither shown nor claimed; "
            f"restore table fencepost.lane, or submit a job of each such queue, type and priority",
        )
    ]


def _orphans(count: int) -> Finding:
    if count == 0:
        return Finding("ok", "orphaned_leases", "no lease has run out unrecovered")
    return Finding(
        "warn",
        "orphaned_leases",
        f"{count} leases have run out and wait for recovery; `fencepost recover` does it now",
    )


def _unserved(env: Env) -> Plan[list[Finding]]:
    live = yield from workers(env)
    known = {type_ for worker in live for type_ in worker.types}
    return [
        Finding(
            "warn",
            "no_worker",
            f"{count} jobs of type {type_!r} wait, and no live worker serves it",
        )
        for type_, count in (yield Statement(WAITING_TYPES))
        if type_ not in known
    ]


# Not a plan: whether news arrive depends on the way that a connection takes.


def hear(
    listening: psycopg.Connection[Any],
    telling: psycopg.Connection[Any],
    *,
    channel: str,
    timeout: float = NOTIFY_TIMEOUT,
) -> Finding:
    """Tell something through one connection and wait for it on another, both in autocommit.

    *channel* is a name that nobody else uses: letters, digits and underscores.
    """
    assert channel.isidentifier() and channel.isascii()
    listening.execute(f"listen {channel}".encode())
    try:
        telling.execute("select pg_catalog.pg_notify(%s::text, ''::text)", (channel,))
        heard = any(
            notice.channel == channel
            for notice in listening.notifies(timeout=timeout, stop_after=1)
        )
    finally:
        listening.execute(f"unlisten {channel}".encode())
    if heard:
        return Finding("ok", "notify", "news arrive by NOTIFY: idle workers wake at once")
    return Finding(
        "warn",
        "notify",
        "no news arrive by NOTIFY, so idle workers find jobs by polling; behind a pooler, name a "
        "direct way with ?listen=… in the URL",
    )

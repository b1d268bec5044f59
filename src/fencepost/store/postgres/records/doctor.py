"""What an operator should know about this server and database: durability first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg

from fencepost.core.values.times import format_duration
from fencepost.store.interface.records.overview import Finding
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.engine.functions import LOCK_CLASS
from fencepost.store.postgres.engine.schema import OLDEST_SERVER
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import utc
from fencepost.store.postgres.records.cluster import CLUSTER
from fencepost.store.postgres.records.overview import OVERVIEW
from fencepost.store.sql.records.overview import orphaned_leases, unserved_jobs

SKEW_MAX = timedelta(seconds=1)
OLD = timedelta(minutes=5)
DEAD_ROWS_MAX = 100_000
"""Autovacuum starts on the hot tables long before."""
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
select coalesce(sum(cardinality(seqs)), 0)::bigint from fencepost.leases
where expires_at <= coalesce(%s::timestamptz, clock_timestamp())
"""
# A look into the index for each lane that jobs refer to.
MISSING_LANES = """
with recursive used(lane) as (
  (select lane from fencepost.submissions order by lane limit 1)
  union all
  select (
    select j.lane from fencepost.submissions j where j.lane > used.lane order by j.lane limit 1
  ) from used where used.lane is not null
)
select count(*) from used
where lane is not null and not exists (select 1 from fencepost.lanes where lanes.lane = used.lane)
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
# Claims do not look below their marks, which `tidy` moves only past transactions that are over.
# Transactions of all databases share one sequence of numbers; one that only reads has no number.
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
where schemaname = 'fencepost' and relname in ('ready', 'leases', 'counters', 'delayed')
  and n_dead_tup > greatest(%s, n_live_tup)
order by 1
"""
# A role that may create objects in a schema where others look names up can make them run its code
# with their rights (decision 0044). Fencepost looks up nothing in ``public``, but an application
# that shares its database does.
CREATORS = """
select n.nspname::text,
  array_agg(coalesce(r.rolname::text, '') order by coalesce(r.rolname::text, ''))
from pg_namespace n
cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) as given
left join pg_roles r on r.oid = given.grantee
where n.nspname in ('public', 'fencepost') and given.privilege_type = 'CREATE'
  and given.grantee <> n.nspowner
group by 1 order by 1
"""
MIGRATING = """
select l.pid, coalesce(a.usename::text, '?'), coalesce(a.application_name, '')
from pg_locks l left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.classid::bigint = %s and l.objsubid = 2
  and l.database = (select oid from pg_database where datname = current_database())
  and l.pid <> pg_backend_pid()
order by 1 limit %s
"""


def inspect(env: Env) -> Plan[list[Finding]]:
    """Look at the server, and at whether notifications arrive."""
    # Only separate connections can show that, opened by the thread that runs this.
    connections = env.connections
    with connections.open(connections.address.listen) as listening:
        sending = connections.open()
        with sending:
            channel = f"fencepost_doctor_{env.clock.new_id().hex()}"
            arrival = check_notify(listening, sending, channel=channel)
    findings = yield from examine(env, is_pooled=sending.is_pooled)
    return [*findings, arrival]


def examine(env: Env, *, is_pooled: bool | None = None) -> Plan[list[Finding]]:
    """Look at the server, its settings, what slows it down, and jobs without a worker.

    *is_pooled* is what ``ServerSession.is_pooled`` found; None if that was not checked.
    """
    settings: dict[str, str] = dict((yield Statement(SETTINGS)))
    ((database, is_standby, sees_others),) = yield Statement(PLACE)
    findings = [_durability(settings), _server(settings)]
    findings += _writable(settings, is_standby=is_standby)
    ((version,),) = yield Statement(VERSION)
    findings.append(Finding("ok", "schema", f"schema version {version} in database {database}"))
    if is_pooled is not None:
        findings.append(_pooler(is_pooled))
    if env.now is None:  # not for the stopped clock of a test
        findings.append((yield from _clock(env)))
    findings += yield from _rights()
    findings += yield from _vacuum(settings, sees_others=sees_others)
    ((missing,),) = yield Statement(MISSING_LANES)
    findings += _missing_lanes(missing)
    ((orphans,),) = yield Statement(EXPIRED, (env.now,))
    findings.append(orphaned_leases(orphans))
    workers = yield from CLUSTER.workers(env)
    findings += unserved_jobs((yield from OVERVIEW.queues(env)), workers)
    return findings


def _durability(settings: dict[str, str]) -> Finding:
    """Promise 6 of the guarantees: what a killed server and a power cut can take back."""
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
        "connected through a pooler: timeouts are the server's own, and notifications need a "
        "direct connection (?listen=… in the URL)",
    )


def _clock(env: Env) -> Plan[Finding]:
    """Compare the clocks, with half of the round trip taken off."""
    before = env.clock.now()
    ((server,),) = yield Statement(NOW)
    skew = abs(utc(server) - before - (env.clock.now() - before) / 2)
    if skew <= SKEW_MAX:
        return Finding("ok", "clock", "this machine's clock agrees with the server's")
    return Finding(
        "warn",
        "clock",
        f"this machine's clock is {_shown(skew)} off the server's, which judges every lease; "
        f"a run_at that is computed here is off by as much",
    )


def _shown(duration: timedelta) -> str:
    return format_duration(float(round(duration.total_seconds())))


def _rights() -> Plan[list[Finding]]:
    """Return which roles may create where names are looked up, and what blocks migrations."""
    open_schemas = yield Statement(CREATORS)
    findings = [_creators(row) for row in open_schemas]
    if not findings:
        text = "only their owners may create in schemas public and fencepost"
        findings.append(Finding("ok", "create_rights", text))
    findings += [_migrating(row) for row in (yield Statement(MIGRATING, (LOCK_CLASS, SHOWN_MAX)))]
    return findings


def _creators(row: Row) -> Finding:
    schema, names = row
    quoted = [_identifier(name) for name in names if name]
    who, grantees = ", ".join(quoted[:SHOWN_MAX]), ", ".join(quoted)
    if "" in names:
        who, grantees = "every role", ", ".join(["public", *quoted])
    elif len(quoted) > SHOWN_MAX:
        who += f" and {len(quoted) - SHOWN_MAX} more"
    harm = (
        "other roles can be made to run what they create there; Fencepost looks up nothing there, "
        "your programs may"
        if schema == "public"
        else "they can change what Fencepost does"
    )
    return Finding(
        "warn",
        "create_rights",
        f"{who} may create in schema {schema}: {harm} "
        f"(revoke create on schema {schema} from {grantees})",
    )


def _identifier(name: str) -> str:
    """Return the name of a role as SQL writes it, safe to show."""
    return '"' + repr(name)[1:-1].replace('"', '""') + '"'


def _migrating(row: Row) -> Finding:
    pid, role, application = row
    program = f", {application!r}" if application else ""
    return Finding(
        "warn",
        "migration_lock",
        f"session {pid} (role {_identifier(role)}{program}) holds the lock that migrations need; "
        f"unless it runs `fencepost migrate`, end it: select pg_terminate_backend({pid})",
    )


OLD_TRANSACTION = (
    "{} has been in a transaction for {} and holds vacuum back; end it if it is not needed"
)
OLD_WRITER = (
    "{} has been writing to database {!r} for {}; until it ends, claims here step over every job "
    "that was removed since; end it if it is not needed"
)
IDLE_SLOT = (
    "replication slot {!r} is not in use and holds vacuum back; drop it if its standby is gone"
)
BLOAT = (
    "table fencepost.{0} has {2:,} dead rows beside {1:,} live ones; look for old transactions, "
    "then `vacuum fencepost.{0}`"
)


def _vacuum(settings: dict[str, str], *, sees_others: bool) -> Plan[list[Finding]]:
    """Return what keeps vacuum from removing dead rows, and whether there are too many."""
    findings: list[Finding] = []
    if not sees_others:
        text = "transactions of other roles cannot be seen; grant pg_read_all_stats to see them"
        findings.append(Finding("note", "old_snapshot", text))
    if settings["autovacuum"] != "on":
        text = "autovacuum is off: the tables of the queue grow without end (set autovacuum = on)"
        findings.append(Finding("warn", "autovacuum", text))
    old = yield Statement(OLD_TRANSACTIONS, (OLD, OLD, SHOWN_MAX))
    findings += _warnings("old_snapshot", OLD_TRANSACTION, old)
    writers = yield Statement(OLD_WRITERS, (OLD, OLD, SHOWN_MAX))
    findings += _warnings("old_writer", OLD_WRITER, writers)
    slots = yield Statement(IDLE_SLOTS, (SHOWN_MAX,))
    findings += _warnings("old_snapshot", IDLE_SLOT, slots)
    if not findings:
        text = "no transaction is older than 5 minutes, nothing holds vacuum or claims back"
        findings.append(Finding("ok", "old_snapshot", text))
    bloated = yield Statement(DEAD_ROWS, (DEAD_ROWS_MAX,))
    findings += _warnings("bloat", BLOAT, bloated)
    if not bloated:
        findings.append(Finding("ok", "bloat", "vacuum keeps up with the tables of the queue"))
    return findings


def _warnings(code: str, text: str, rows: Sequence[Row]) -> list[Finding]:
    """Return *text* with the values of each row."""
    shown = [[_shown(v) if isinstance(v, timedelta) else v for v in row] for row in rows]
    return [Finding("warn", code, text.format(*values)) for values in shown]


def _missing_lanes(count: int) -> list[Finding]:
    if count == 0:
        return []
    return [
        Finding(
            "fail",
            "missing_lanes",
            f"jobs refer to {count} lanes that are missing, and are neither shown nor claimed; "
            f"restore table fencepost.lanes, or submit a job of each such queue, type and priority",
        )
    ]


def check_notify(
    listening: psycopg.Connection[Any],
    sending: psycopg.Connection[Any],
    *,
    channel: str,
    timeout: float = NOTIFY_TIMEOUT,
) -> Finding:
    """Notify through one connection and wait for it on another, both in autocommit.

    Not a plan: whether it arrives depends on how each connection reaches the server. *channel* must
    be unused; letters, digits and underscores.
    """
    assert channel.isidentifier() and channel.isascii()
    listening.execute(f"listen {channel}".encode())
    try:
        sending.execute("select pg_catalog.pg_notify(%s::text, ''::text)", (channel,))
        # Not by a name for the generator: it keeps the connection locked as long as it exists.
        has_arrived = any(
            each.channel == channel for each in listening.notifies(timeout=timeout, stop_after=1)
        )
    finally:
        listening.execute(f"unlisten {channel}".encode())
    if has_arrived:
        return Finding("ok", "notify", "notifications arrive: idle workers wake at once")
    return Finding(
        "warn",
        "notify",
        "no notification arrives, so idle workers find jobs by polling; behind a pooler, give a "
        "direct connection with ?listen=… in the URL",
    )

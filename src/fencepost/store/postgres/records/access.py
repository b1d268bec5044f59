"""Tokens and the audit log in PostgreSQL: the SQL for the plans in ``store/sql/records/access.py``.

The role of workers can neither read nor write tokens. No role can change an entry of the audit log;
workers can neither add one nor delete one that is younger than a week (``AUDIT_KEPT_MIN``): they
prune the log through a function that has its owner's rights.
"""

from __future__ import annotations

from fencepost.store.postgres.jobs.rows import CODEC
from fencepost.store.sql.records.access import (
    AuditPlans,
    AuditSql,
    SessionPlans,
    SessionSql,
    TokenPlans,
    TokenSql,
)

SESSION_COLUMNS = "id, token_id, digest, created_at, expires_at"
COLUMNS = "id, name, digest, roles, queues, rate, created_at, expires_at, revoked_at"

TOKENS = TokenPlans(
    TokenSql(
        forget="""
with given as (
  select coalesce(%s::timestamptz, clock_timestamp()) - %s::bigint * interval '1 microsecond' as at
)
delete from fencepost.tokens using given where revoked_at <= given.at or expires_at <= given.at
""",
        known="select digest from fencepost.tokens where id = %s",
        total="select count(*) from fencepost.tokens",
        add=f"""
insert into fencepost.tokens({COLUMNS}) values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (id) do nothing returning 1
""",
        tokens=f"""select {COLUMNS} from fencepost.tokens order by created_at, id collate "C" """,
        revoke="""
update fencepost.tokens
set revoked_at = coalesce(revoked_at, %s::timestamptz, clock_timestamp()) where id = %s returning 1
""",
    ),
    CODEC,
)

SESSIONS = SessionPlans(
    SessionSql(
        forget="""
delete from fencepost.sessions where expires_at <= coalesce(%s::timestamptz, clock_timestamp())
""",
        add=f"""
insert into fencepost.sessions({SESSION_COLUMNS}) values (%s, %s, %s, %s, %s)
on conflict (id) do nothing
""",
        trim_token="""
delete from fencepost.sessions where token_id = %s and id not in (
  select id from fencepost.sessions where token_id = %s
  order by created_at desc, id collate "C" desc limit %s
)
""",
        trim="""
delete from fencepost.sessions where id not in (
  select id from fencepost.sessions order by created_at desc, id collate "C" desc limit %s
)
""",
        sessions=f"""
select {SESSION_COLUMNS} from fencepost.sessions order by created_at, id collate "C"
""",
        close="delete from fencepost.sessions where id = %s",
    ),
    CODEC,
)

AUDIT = AuditPlans(
    AuditSql(
        record="""
insert into fencepost.actions(
  id, at, principal_id, principal, action, target, detail, request_id, status)
values (%s, coalesce(%s::timestamptz, clock_timestamp()), %s, %s, %s, %s, %s, %s, %s)
on conflict (id) do nothing
""",
        page="""
select seq, id::text, at, principal_id, principal, action, target, detail, request_id, status
from fencepost.actions where seq < %s::bigint order by seq desc limit %s
""",
        prune="select fencepost.prune_actions(%s::timestamptz, %s::bigint, %s::integer)",
    ),
    CODEC,
    count_pruned=lambda rows: int(rows[0][0]),
)

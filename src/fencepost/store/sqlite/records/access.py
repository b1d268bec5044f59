"""Tokens and the audit log in SQLite: the SQL for the plans in ``store/sql/records/access.py``."""

from __future__ import annotations

from fencepost.store.sql.records.access import (
    AuditPlans,
    AuditSql,
    SessionPlans,
    SessionSql,
    TokenPlans,
    TokenSql,
)
from fencepost.store.sqlite.jobs.rows import CODEC

TOKEN_COLUMNS = "id, name, digest, roles, queues, rate, created_at, expires_at, revoked_at"
SESSION_COLUMNS = "id, token_id, digest, created_at, expires_at"
ACTION_COLUMNS = "id, at, principal_id, principal, action, target, detail, request_id, status"

TOKENS = TokenPlans(
    TokenSql(
        forget="""
with given(at) as (select ? - ?)
delete from tokens
where revoked_at <= (select at from given) or expires_at <= (select at from given)
""",
        known="select digest from tokens where id = ?",
        total="select count(*) from tokens",
        add=f"""
insert into tokens({TOKEN_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict(id) do nothing returning 1
""",
        tokens=f"select {TOKEN_COLUMNS} from tokens order by created_at, id",
        revoke="update tokens set revoked_at = coalesce(revoked_at, ?) where id = ? returning 1",
    ),
    CODEC,
)

SESSIONS = SessionPlans(
    SessionSql(
        forget="delete from sessions where expires_at <= ?",
        add=f"""
insert into sessions({SESSION_COLUMNS}) values (?, ?, ?, ?, ?) on conflict(id) do nothing
""",
        trim_token="""
delete from sessions where token_id = ? and id not in (
  select id from sessions where token_id = ? order by created_at desc, id desc limit ?
)
""",
        trim="""
delete from sessions where id not in (
  select id from sessions order by created_at desc, id desc limit ?
)
""",
        sessions=f"select {SESSION_COLUMNS} from sessions order by created_at, id",
        close="delete from sessions where id = ?",
    ),
    CODEC,
)

AUDIT = AuditPlans(
    AuditSql(
        record=f"""
insert into actions({ACTION_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do nothing
""",
        page=f"select seq, {ACTION_COLUMNS} from actions where seq < ? order by seq desc limit ?",
        prune="""
delete from actions where seq in (
  select seq from actions where at <= ? - ? order by at, seq limit ?
) returning seq
""",
    ),
    CODEC,
    count_pruned=len,
)

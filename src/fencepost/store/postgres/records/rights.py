"""What other roles of the database could do to the store: for ``fencepost doctor``.

Whoever may create in a schema that others look names up in can have them run what it creates there,
with their rights (decision 0044). Fencepost looks up nothing in ``public``, but an application that
shares its database does. And any role can take an advisory lock, which migrations wait for.
"""

from __future__ import annotations

from fencepost.store.interface.overview import Finding
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.engine.migration_lock import LOCK_CLASS

SHOWN_MAX = 5

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


def rights() -> Plan[list[Finding]]:
    """Return who may create where names are looked up, and who holds migrations up."""
    open_schemas = yield Statement(CREATORS)
    findings = [_creators(row) for row in open_schemas]
    if not findings:
        text = "only their owners may create in schemas public and fencepost"
        findings.append(Finding("ok", "create_rights", text))
    findings += [_migrating(row) for row in (yield Statement(MIGRATING, (LOCK_CLASS, SHOWN_MAX)))]
    return findings


def _creators(row: Row) -> Finding:
    schema, names = row
    quoted = [identifier(name) for name in names if name]
    who, grantees = ", ".join(quoted[:SHOWN_MAX]), ", ".join(quoted)
    if "" in names:
        who, grantees = "every role", ", ".join(["public", *quoted])
    elif len(quoted) > SHOWN_MAX:
        who += f" and {len(quoted) - SHOWN_MAX} more"
    harm = (
        "what they create there is run by others as themselves; Fencepost looks up nothing there, "
        "programs of yours may"
        if schema == "public"
        else "they can change what Fencepost does"
    )
    return Finding(
        "warn",
        "create_rights",
        f"{who} may create in schema {schema}: {harm} "
        f"(revoke create on schema {schema} from {grantees})",
    )


def identifier(name: str) -> str:
    """Return the name of a role as it is written in SQL, and is safe to show."""
    return '"' + repr(name)[1:-1].replace('"', '""') + '"'


def _migrating(row: Row) -> Finding:
    pid, role, application = row
    program = f", {application!r}" if application else ""
    return Finding(
        "warn",
        "migration_lock",
        f"session {pid} (role {identifier(role)}{program}) holds the lock that migrations wait "
        f"for; unless it runs `fencepost migrate`, end it: select pg_terminate_backend({pid})",
    )

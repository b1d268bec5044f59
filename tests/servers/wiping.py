"""Make a database look unused again, which is quicker than making a new one."""

from __future__ import annotations

import psycopg

# Truncating writes new files for a table and for each of its indexes: 1 ms a table. Deleting a few
# rows takes a tenth of that, so only a table that has grown is truncated; one that no test wrote to
# has no pages, and is left alone. The locks see to it that no open transaction adds a row later,
# and as a replica the session runs no triggers, so that the order of the tables does not matter.
WIPE = """
do $wipe$
declare
    ours regclass[];
    one regclass;
    grown text;
begin
    select array_agg(c.oid::regclass order by c.oid),
           string_agg(c.oid::regclass::text, ', ') filter (where pg_table_size(c.oid) > 32 * 8192)
      into ours, grown
      from pg_class c
     where c.relnamespace = to_regnamespace('fencepost')
       and c.relkind = 'r'
       and c.relname not in ('schema_version', 'function_files')
       and pg_relation_size(c.oid) > 0;
    if ours is null then
        return;
    end if;
    execute 'lock table ' || array_to_string(ours, ', ') || ' in access exclusive mode';
    if grown is not null then
        execute 'truncate ' || grown || ' cascade';
    end if;
    perform set_config('session_replication_role', 'replica', true);
    foreach one in array ours loop
        execute 'delete from ' || one::text;
    end loop;
end
$wipe$
"""

RESTART = """
select setval(s.seqrelid, s.seqstart, false)
  from pg_sequence s
  join pg_class c on c.oid = s.seqrelid
 where c.relnamespace = to_regnamespace('fencepost')
   and pg_sequence_last_value(s.seqrelid) is not null
"""

# What a test may have left in a database: its schemas, with all that is in them, and its settings.
EMPTY = """
do $empty$
declare
    name text;
begin
    for name in
        select nspname from pg_namespace
         where nspname !~ '^pg_' and nspname not in ('information_schema', 'public')
    loop
        execute format('drop schema %I cascade', name);
    end loop;
    if exists (select from pg_depend d join pg_namespace n on n.oid = d.refobjid
                where d.refclassid = 'pg_namespace'::regclass and n.nspname = 'public')
       or not exists (select from pg_namespace where nspname = 'public')
    then
        drop schema if exists public cascade;
        create schema public authorization pg_database_owner;
        grant usage on schema public to public;
    end if;
    execute format('alter database %I reset all', current_database());
end
$empty$
"""

# The same without the schema that is to be kept.
CLEAR = EMPTY.replace("'public')\n    loop", "'public', 'fencepost')\n    loop")
assert CLEAR != EMPTY

# Of all that a schema consists of, where its row is and which transaction wrote that. What is said
# of a table or an index is compared itself: its row is written again when it is truncated.
FINGERPRINT = """
with ours as (select * from pg_class where relnamespace = to_regnamespace('fencepost')),
parts(part, id, version) as (
  select 1, oid, xmin::text from pg_namespace where nspname = 'fencepost'
  union all select 2, oid, concat_ws('|', relname, relkind, relowner, relacl, reloptions, relnatts,
    relchecks, reltoastrelid, relhasrules, relrowsecurity) from ours
  union all select 3, oid, xmin::text from pg_proc where pronamespace = to_regnamespace('fencepost')
  union all select 4, oid, xmin::text from pg_type where typnamespace = to_regnamespace('fencepost')
  union all select 5, oid, xmin::text from pg_constraint
    where connamespace = to_regnamespace('fencepost')
  union all select 6, oid, xmin::text from pg_trigger where tgrelid in (select oid from ours)
  union all select 7, indexrelid, xmin::text from pg_index where indrelid in (select oid from ours)
  union all select 8, attrelid, xmin::text from pg_attribute
    where attrelid in (select oid from ours) and attnum > 0
)
select md5(string_agg(concat_ws(' ', part, id, version), ',' order by part, id, version)) from parts
"""
APPLIED = """
select (select md5(string_agg(v::text, ',' order by v::text)) from fencepost.schema_version v),
  (select md5(string_agg(f::text, ',' order by f::text)) from fencepost.function_files f)
"""

# Not the background ones, such as autovacuum: those give way by themselves.
END_OTHERS = """
select pg_terminate_backend(pid)
  from pg_stat_activity
 where datname = current_database()
   and pid <> pg_backend_pid()
   and backend_type = 'client backend'
"""


def empty_through(connection: psycopg.Connection) -> None:
    """End all other connections and drop every schema: 9 ms, where a new database takes 15 to 90.

    Roles and other databases are the server's, and stay.
    """
    connection.execute(END_OTHERS)
    connection.execute(EMPTY)


def clear_through(connection: psycopg.Connection) -> None:
    """Do as `empty_through`, but leave schema `fencepost` as it is."""
    connection.execute(END_OTHERS)
    connection.execute(CLEAR)


def fingerprint(connection: psycopg.Connection) -> str:
    """Return what changes with every change of schema `fencepost`, if not with its rows."""
    try:
        return str([connection.execute(sql).fetchone() for sql in (FINGERPRINT, APPLIED)])
    except psycopg.errors.UndefinedTable:
        return "incomplete"


def wipe(url: str) -> None:
    """Empty every table of schema `fencepost`, and restart its sequences.

    All but `schema_version` and `function_files`, which say what was applied. Does nothing if there
    is no such schema. Connections that a test forgot are ended if they are in the way.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        wipe_through(connection)


def wipe_through(connection: psycopg.Connection) -> None:
    """Do as `wipe`, by a connection in autocommit mode that is kept: 1 ms, rather than 6."""
    connection.execute("set lock_timeout = '2s'")
    try:
        connection.execute(WIPE)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        connection.execute(END_OTHERS)
        connection.execute(WIPE)
    connection.execute(RESTART)

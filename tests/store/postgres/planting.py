"""A hostile role that may create in schema public, and what it leaves there for others to run.

A name without a schema means the best match that the search path leads to. So for many types, and
pairs of them, ``public`` gets operators and functions by the names of the server's own, wherever
the server has none for exactly these types: each would be a better match than what it makes do
with. Each fails if it is run, and counts that, also if whoever ran it hides the failure.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg

Admin = psycopg.Connection[tuple[Any, ...]]

HOSTILE = "mallory"

TYPES = (
    *("smallint", "integer", "bigint", "numeric", "double precision", "text", "varchar", "name"),
    *('"char"', "boolean", "timestamptz", "interval", "uuid", "json", "jsonb", "bytea", "oid"),
    *("xid8", "pg_snapshot", "regnamespace", "regclass", "regprocedure"),
    *("smallint[]", "integer[]", "bigint[]", "text[]", "uuid[]", "timestamptz[]", "boolean[]"),
    *("json[]", "jsonb[]", "xid8[]", "name[]"),
)
"""All that our SQL deals in."""
FEW = ("integer", "bigint", "text", "json", "boolean", "timestamptz", "bigint[]", "integer[]")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
OTHERS = ("+", "-", "*", "/", "%", "&", "||", "->", "->>", "@>", "&&", "~", "~~")

TRAP = """
create sequence public.sprung;
grant all on sequence public.sprung to public;
create function public.spring(what text) returns void language plpgsql as $$
begin
  perform pg_catalog.nextval('public.sprung'::pg_catalog.regclass);
  raise exception 'planted % was run as %', what, current_user;
end $$;
"""
PLANT_OPERATORS = """
do $do$
declare
  a text;
  b text;
  o text;
  n integer := 0;
begin
  foreach a in array %(types)s::text[] loop
    foreach b in array %(types)s::text[] loop
      n := n + 1;
      execute format('create function public.is_%%s(a %%s, b %%s) returns boolean
        language plpgsql as $$ begin perform public.spring(%%L); return true; end $$',
        n, a, b, a || ' ? ' || b);
      foreach o in array %(names)s::text[] loop
        continue when to_regoperator(format('pg_catalog.%%s(%%s,%%s)', o, a, b)) is not null;
        execute format('create operator public.%%s (
          function = public.is_%%s, leftarg = %%s, rightarg = %%s)', o, n, a, b);
      end loop;
    end loop;
  end loop;
end $do$
"""
PLANT_FUNCTIONS = """
do $do$
#variable_conflict use_column
declare
  v_name text;
  v_args text;
begin
  for v_name, v_args in
    select x.f, x.args from (
      select f, a as args from unnest(%(functions)s::text[]) as f, unnest(%(types)s::text[]) as a
      union
      select f, a || ',' || b from unnest(%(functions)s::text[]) as f, unnest(%(few)s::text[]) as a,
        unnest(%(few)s::text[]) as b
    ) as x
    where to_regprocedure(format('pg_catalog.%%I(%%s)', x.f, x.args)) is null
  loop
    execute format('create function public.%%I(%%s) returns boolean
      language plpgsql as $$ begin perform public.spring(%%L); return true; end $$',
      v_name, v_args, v_name || '(' || v_args || ')');
  end loop;
end $do$
"""

# For a path that leads there first: these have the very types of the server's own.
PLANT_SHADOWS = """
create schema shadow authorization {role};
grant usage on schema shadow to public;
do $do$
declare
  a text;
  f text;
begin
  foreach f in array array[
    'clock_timestamp()', 'current_database()', 'current_setting(text)', 'pg_notify(text, text)',
    'pg_current_xact_id()', 'pg_postmaster_start_time()', 'set_config(text, text, boolean)'
  ] loop
    execute format('create function shadow.%s returns text language plpgsql
      as $$ begin perform public.spring(%L); end $$', f, f);
  end loop;
  foreach a in array array['bigint', 'integer', 'text', 'name', 'oid', 'uuid'] loop
    execute format('create function shadow.equal(a %s, b %s) returns boolean language plpgsql
      as $$ begin perform public.spring(%L); end $$', a, a, a || ' = ' || a);
    execute format('create operator shadow.= (
      function = shadow.equal, leftarg = %s, rightarg = %s)', a, a);
  end loop;
end $do$
""".replace("{role}", HOSTILE)


def plant(admin: Admin) -> None:
    """Let a role that has no other right plant all that it can.

    The names that *admin* itself uses are the server's from then on.
    """
    admin.execute(
        f"""
        do $$ begin
          if not exists (select from pg_roles where rolname = '{HOSTILE}') then
            create role {HOSTILE} nologin;
          end if;
        end $$;
        grant create, usage on schema public to {HOSTILE};
        set search_path = pg_catalog;
        set role {HOSTILE};
        """.encode()
    )
    admin.execute(TRAP)
    named = _functions(admin)
    cursor = psycopg.ClientCursor(admin)
    cursor.execute(PLANT_OPERATORS, {"types": list(TYPES), "names": [*COMPARISONS, *OTHERS]})
    cursor.execute(PLANT_FUNCTIONS, {"types": list(TYPES), "few": list(FEW), "functions": named})
    admin.execute("reset role")
    admin.execute(PLANT_SHADOWS.encode())


def sprung(admin: Admin) -> bool:
    """Tell whether anything that was planted has been run since the last time."""
    row = admin.execute("select is_called from public.sprung").fetchone()
    admin.execute("select setval('public.sprung', 1, false)")
    assert row is not None
    return bool(row[0])


def _functions(admin: Admin) -> list[str]:
    """Return the names of the server's functions that stand in our SQL."""
    folder = Path(str(files("fencepost.store.postgres")))
    texts = [each for each in folder.rglob("*.*") if each.suffix in (".py", ".sql")]
    called = {name for text in texts for name in re.findall(r"\b(\w+)\(", text.read_text("utf-8"))}
    rows = admin.execute(
        "select distinct proname::text from pg_proc where proname = any (%s) "
        "and pronamespace = 'pg_catalog'::regnamespace order by 1",
        (sorted(called),),
    )
    return [name for (name,) in rows]

"""Which schemas names in our SQL are looked up in: those of the server itself, and no others.

A name or an operator without a schema is looked up along the session's ``search_path``, and the
best match wins, wherever it stands: an operator ``||(text, integer)`` that somebody has created in
``public`` is a better match than the server's own, which takes any type, and it is executed as
whoever uses it. So no statement of ours is executed with a path that leads anywhere else (decision
0044): functions have theirs fixed when they are created, sessions of ours when they are opened,
behind a pooler each transaction begins with it, and in a transaction of a caller's it is exchanged
for the time of an operation. ``pg_temp`` is named last because it is looked up first otherwise.

These statements come before any of that, so each name in them says its schema.
"""

from __future__ import annotations

from fencepost.store.plan import Statement

SEARCH_PATH = "pg_catalog, pg_temp"

FIX = Statement(
    f"select pg_catalog.set_config("
    f"'search_path'::pg_catalog.text, '{SEARCH_PATH}'::pg_catalog.text, true)"
)
"""For the rest of a transaction."""

EXCHANGE = Statement(
    "select pg_catalog.current_setting('search_path'::pg_catalog.text), "
    f"pg_catalog.set_config('search_path'::pg_catalog.text, '{SEARCH_PATH}'::pg_catalog.text, true)"
)
"""The same, and return the path that there was; columns are evaluated from left to right."""


FIX_LOCALLY = f"set local search_path = {SEARCH_PATH};"
"""The same as FIX, for scripts."""

# Not written down with each function: one could forget it.
FIX_FUNCTIONS = f"""
do $$
declare
  command text;
begin
  for command in
    select format('alter routine %s set search_path = {SEARCH_PATH}', p.oid::regprocedure)
    from pg_proc p where p.pronamespace = 'fencepost'::regnamespace
      and not coalesce(array_to_string(p.proconfig, ' '), '') ~ 'search_path='
  loop
    execute command;
  end loop;
end $$;
"""
"""Fixes the path of every function that has none, for the end of whatever creates functions."""


def restore(path: str) -> Statement:
    """Return what gives a transaction back the path that it had."""
    sql = "select pg_catalog.set_config('search_path'::pg_catalog.text, %s::pg_catalog.text, true)"
    return Statement(sql, (path,))

"""The search path: names in our SQL are looked up in the server's own schema only.

A name or an operator without a schema is looked up along the session's ``search_path``, and the
best match wins, in whatever schema it is: an operator ``||(text, integer)`` in ``public`` is a
better match than the server's own, which takes any type, and it runs with the rights of the caller.
So all our statements run with this path (decision 0044). It is fixed for functions when they are
created, for our sessions when they are opened; behind a pooler each transaction begins with it, and
in a caller's transaction it is set for the time of an operation. ``pg_temp`` is named last, since
otherwise it would be searched first.

These statements come before any of that, so each name in them has its schema.
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
"""The same, and returns the previous path; columns are evaluated from left to right."""


FIX_LOCALLY = f"set local search_path = {SEARCH_PATH};"
"""The same as FIX, for scripts."""

# Not written with each function, where it could be forgotten.
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
"""Fixes the path of every function without one; for the end of scripts that create functions."""


def restore(path: str) -> Statement:
    """Return what restores the previous path of a transaction."""
    sql = "select pg_catalog.set_config('search_path'::pg_catalog.text, %s::pg_catalog.text, true)"
    return Statement(sql, (path,))

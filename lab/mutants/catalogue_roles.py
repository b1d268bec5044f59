"""Bugs that let another role of a PostgreSQL database run, forge or hold up what is not its own."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.postgres"
SQL = "fencepost.store.postgres.schema/*.sql"
PLANTED = "tests/store/postgres/test_planted.py"
LOCKS = "tests/store/postgres/test_hostile_locks.py"
SCHEMA = "tests/store/postgres/test_schema.py"


def _sql(name: str, about: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, (Patch(SQL, old, new),), tests)


def _python(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"{STORE}.{module}", old, new),)
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, patches, tests)


MUTANTS = (
    _python(
        "functions-look-anywhere",
        "names in functions are looked up by the path of the caller",
        "engine.functions",
        "{FIX_FUNCTIONS}{record}",
        "{record}",
        PLANTED,
    ),
    _python(
        "sessions-look-anywhere",
        "statements are executed with the path that the role or the database has",
        "engine.connections",
        '    "search_path": SEARCH_PATH,\n',
        "",
        PLANTED,
    ),
    _python(
        "poolers-look-anywhere",
        "behind a pooler, transactions have the path of the session that they are given",
        "engine.session",
        "rows = self._ask((*statements[:place], FIX, *statements[place:]), postscript, meanwhile)",
        "return self._ask(statements, postscript, meanwhile)",
        PLANTED,
    ),
    _python(
        "callers-look-anywhere",
        "in a caller's transaction, names are looked up by the caller's path",
        "engine.search_path",
        "f\"pg_catalog.set_config('search_path'::pg_catalog.text, "
        "'{SEARCH_PATH}'::pg_catalog.text, true)\"",
        "\"''\"",
        PLANTED,
    ),
    _python(
        "callers-are-left-with-our-path",
        "a caller's transaction goes on with our search path",
        "joins.transaction",
        "        borrowed.execute(restore(path))\n    except psycopg.Error as error:",
        "    except psycopg.Error as error:",
        PLANTED,
    ),
    _sql(
        "runtime-prunes-young-actions",
        "workers delete what they have just done from the audit log",
        "    clock_timestamp() - interval '7 days');",
        "    'infinity');",
        SCHEMA,
    ),
    _sql(
        "runtime-forges-actions",
        "workers add to the audit log, and change it",
        "    revoke insert, update, delete on fencepost.actions from fencepost_runtime;\n",
        "",
        SCHEMA,
    ),
    _sql(
        "readers-prune-actions",
        "a role that may only read prunes the audit log",
        "revoke execute on function fencepost.prune_actions(timestamptz, bigint, integer) "
        "from public;\n",
        "",
        SCHEMA,
    ),
    _sql(
        "marks-by-an-advisory-lock",
        "any role of the database keeps the marks from moving",
        "    lock table fencepost.marks_latch in share row exclusive mode;\n",
        "    perform pg_advisory_xact_lock(1178947156, 1);\n",
        LOCKS,
    ),
    _sql(
        "marks-are-not-held",
        "the marks move though somebody holds them",
        "  lock table fencepost.marks_latch in row exclusive mode;\n",
        "",
        "tests/store/postgres/test_marks.py",
    ),
)

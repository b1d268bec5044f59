"""Functions of the schema: applied again when their text has changed, by equal or newer versions.

PostgreSQL-specific: no other store has functions, nor programs of several versions at once.
"""

from __future__ import annotations

import re
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from tests.store.postgres.conftest import Admin

from fencepost.cli.main import cli
from fencepost.errors import SchemaError
from fencepost.store.postgres.engine import functions, schema
from fencepost.store.postgres.engine.functions import FunctionSet
from fencepost.store.postgres.store import PostgresStore

FOLDER = Path(str(files("fencepost.store.postgres.schema")))
PUBLISHED: dict[int, str] = {}
"""The digest of each set that a release of Fencepost had, by the number of the set."""

STATE = """
select p.proname::text, p.xmin::text, md5(p.prosrc), p.prosecdef, p.proconfig, p.proacl::text
from pg_proc p where p.pronamespace = 'fencepost'::regnamespace order by 1
"""
OURS = functions.function_set()
NEXT_VERSION = "select fencepost.next_version(0, 'epoch')"
FIXED = "search_path=pg_catalog, pg_temp"


def changed(name: str = "lease", *, newer: int = 1, factor: int = 2) -> FunctionSet:
    """Return this version's set with another body of `next_version`, as a later one would have."""
    old, new = "greatest(p_last + 1", f"{factor} * greatest(p_last + 1"
    assert any(old in each.sql for each in OURS.files if each.name == name)
    edited = (
        each._replace(sql=each.sql.replace(old, new)) if each.name == name else each
        for each in OURS.files
    )
    return FunctionSet(OURS.release + newer, tuple(edited))


def as_version(monkeypatch: pytest.MonkeyPatch, version: FunctionSet) -> None:
    monkeypatch.setattr(functions, "function_set", lambda: version)


def state(admin: Admin) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in admin.execute(STATE).fetchall()}


def test_a_file_is_applied_again_when_its_text_has_changed_and_no_other_is(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.apply(admin)
    before = state(admin)
    as_version(monkeypatch, changed())
    assert [name for name, _ in schema.pending(admin)] == ["functions: lease"]
    with pytest.raises(SchemaError, match=r"has other functions: lease .* run `fencepost migrate`"):
        schema.check(admin)
    assert schema.apply(admin) == ["functions: lease"]
    schema.check(admin)
    assert schema.apply(admin) == []
    assert schema.pending(admin) == []
    assert admin.execute(NEXT_VERSION).fetchone() == (2,)
    after = state(admin)
    assert {name for name in after if after[name][1] != before[name][1]} == {"next_version"}
    replaced = {name for name in after if after[name][0] != before[name][0]}
    lease = next(each.sql for each in functions.function_set().files if each.name == "lease")
    assert replaced == set(re.findall(r"^create or replace function fencepost\.(\w+)", lease, re.M))


def test_a_function_that_is_applied_again_keeps_its_guards(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fixed search path, its owner's rights, and who may call it."""
    schema.apply(admin)
    before = state(admin)
    spaced = tuple(each._replace(sql=f"{each.sql}\n") for each in OURS.files)
    as_version(monkeypatch, FunctionSet(OURS.release, spaced))
    assert schema.apply(admin) == [functions.title(list(OURS.files))]
    after = state(admin)
    assert all(after[name][0] != before[name][0] for name in before), "all were replaced"
    assert {name: each[1:] for name, each in after.items()} == {
        name: each[1:] for name, each in before.items()
    }
    assert [name for name, each in after.items() if FIXED not in (each[3] or ())] == []
    assert [name for name, each in after.items() if each[2]] == ["accept_jobs", "prune_actions"]
    may_call = "select has_function_privilege('public', p.oid, 'execute') from pg_proc p "
    may_call += "where p.prosecdef and p.pronamespace = 'fencepost'::regnamespace"
    assert admin.execute(may_call.encode()).fetchall() == [(False,), (False,)]


def test_an_older_version_leaves_newer_functions_alone(
    admin: Admin, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions that migrate in turns: the newer one's functions stay, and both can start."""
    schema.apply(admin)
    for _ in range(2):
        with monkeypatch.context() as newer:
            as_version(newer, changed())
            schema.apply(admin)
            schema.check(admin)
        applied = state(admin)
        assert schema.pending(admin) == []
        assert schema.apply(admin) == []
        schema.check(admin)
        assert state(admin) == applied
        assert admin.execute(NEXT_VERSION).fetchone() == (2,)
    store = PostgresStore(postgres_url)
    assert store.migrate() == []
    store.close()


def test_an_older_version_leaves_alone_what_a_newer_one_did_not_change(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is that of the whole set, though only one file of it was new."""
    schema.apply(admin)
    with monkeypatch.context() as newer:
        as_version(newer, changed(newer=2))
        schema.apply(admin)
    as_version(monkeypatch, changed(newer=1, factor=3))
    assert schema.apply(admin) == []
    rows = admin.execute("select distinct release from fencepost.function_files").fetchall()
    assert rows == [(OURS.release + 2,)]


def test_a_newer_schema_keeps_its_functions_whatever_their_number(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the number of the set have been forgotten."""
    schema.apply(admin)
    known = schema.migrations()
    newest = known[-1][0]
    with monkeypatch.context() as newer:
        later = (newest + 1, "later", f"-- oldest: {newest}\ncreate table fencepost.later();\n")
        newer.setattr(schema, "migrations", lambda: [*known, later])
        as_version(newer, changed(newer=0))
        assert schema.apply(admin) == ["later", "functions: lease"]
    assert schema.apply(admin) == []
    assert schema.pending(admin) == []
    schema.check(admin)
    assert admin.execute(NEXT_VERSION).fetchone() == (2,)


def test_a_failure_leaves_every_function_as_it_was(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.apply(admin)
    before = state(admin)
    broken = changed()
    last = broken.files[-1]
    files_ = (*broken.files[:-1], last._replace(sql=f"{last.sql}\nselect 1 / 0;\n"))
    as_version(monkeypatch, broken._replace(files=files_))
    with pytest.raises(psycopg.errors.DivisionByZero):
        schema.apply(admin)
    assert state(admin) == before
    with pytest.raises(SchemaError):
        schema.check(admin)


def test_the_printed_script_applies_functions_and_gives_way_to_newer_ones(
    admin: Admin, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.apply(admin)
    as_version(monkeypatch, changed())
    plan = CliRunner().invoke(cli, ["--url", postgres_url, "migrate", "--plan"])
    assert plan.stdout == "would apply: functions: lease\n"
    printed = CliRunner().invoke(cli, ["--url", postgres_url, "migrate", "--sql"])
    assert printed.exit_code == 0, printed.output
    for _ in range(2):  # the second time changes nothing
        admin.execute(printed.stdout.encode())
        schema.check(admin)
        assert [name for name, each in state(admin).items() if FIXED not in (each[3] or ())] == []
    as_version(monkeypatch, changed(newer=2, factor=3))
    schema.apply(admin)
    with pytest.raises(psycopg.errors.RaiseException, match="functions of a release after"):
        admin.execute(printed.stdout.encode())
    admin.execute("rollback")
    assert admin.execute(NEXT_VERSION).fetchone() == (3,)


def test_no_name_stands_for_two_functions(admin: Admin) -> None:
    """One whose parameters change gets a new name: replaced, it would be there twice."""
    schema.apply(admin)
    created = re.findall(
        r"^create (?:or replace )?function fencepost\.(\w+)",
        "".join(each.sql for each in OURS.files),
        re.M,
    )
    names = admin.execute(
        "select proname::text from pg_proc where pronamespace = 'fencepost'::regnamespace"
    ).fetchall()
    assert sorted(created) == sorted(name for (name,) in names)
    assert len(set(created)) == len(created) > 65


def test_every_function_fits_a_screen_and_every_file_its_folder() -> None:
    for path in FOLDER.rglob("*.sql"):
        text = path.read_text("utf-8")
        assert text.count("\n") <= 400, path.name
        for function in re.findall(r"(?ms)^create or replace function.*?\$\$;$", text):
            assert function.count("\n") < 60, (path.name, function.split("(")[0])
    assert len(list((FOLDER / "functions").glob("*.sql"))) <= 16


def test_functions_stand_in_files_of_their_own() -> None:
    """In a migration, one would be replaced by whatever version of it is applied next."""
    for _, name, text in schema.migrations():
        assert not re.search(r"^create (or replace )?function", text, re.M), name


def test_a_published_set_never_changes() -> None:
    """Whoever changes a function after a release raises RELEASE in schema/functions/__init__.py."""
    digest = sha256("".join(each.sql for each in OURS.files).encode()).hexdigest()
    assert OURS.release > max(PUBLISHED, default=0) or PUBLISHED[OURS.release] == digest

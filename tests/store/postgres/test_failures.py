"""What a caller is told when PostgreSQL refuses. PostgreSQL-specific: its codes and its words."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors
from tests.store.postgres.conftest import Admin, Connect

from fencepost.errors import (
    FencepostError,
    InvalidJobError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.store.postgres.engine.errors import refused, translate

pytestmark = pytest.mark.postgres("migrated")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("25006", StoreUnavailableError),
        ("40001", StoreUnavailableError),
        ("40P01", StoreUnavailableError),
        ("42501", StoreUnavailableError),
        ("53100", StoreUnavailableError),
        ("53300", StoreUnavailableError),
        ("55P03", StoreUnavailableError),
        ("57014", StoreUnavailableError),
        ("57P01", StoreUnavailableError),
        ("57P02", StoreUnavailableError),
        ("57P03", StoreUnavailableError),
        ("58030", StoreUnavailableError),
        ("42P01", SchemaError),
        ("3F000", SchemaError),
        ("42883", SchemaError),
        ("22021", InvalidJobError),
        ("42601", StoreError),
        ("23505", StoreError),
    ],
)
@pytest.mark.parametrize("sent_commit", [True, False])
def test_what_the_server_refuses_is_surely_not_done(
    state: str, expected: type[FencepostError], sent_commit: bool
) -> None:
    error = errors.lookup(state)("no")
    assert error.sqlstate == state
    assert type(translate(error, sent_commit=sent_commit)) is expected


def test_a_lost_connection_leaves_the_outcome_open_only_if_there_was_something_to_commit() -> None:
    lost = psycopg.OperationalError("server closed the connection unexpectedly")
    assert type(translate(lost, sent_commit=True)) is UnknownOutcomeError
    assert type(translate(lost, sent_commit=False)) is StoreUnavailableError


def test_a_missing_schema_names_the_command_that_makes_it(admin: Admin) -> None:
    for sql in ("select * from nowhere.job", "select * from nothing", "select missing(1)"):
        with pytest.raises(psycopg.Error) as raised:
            admin.execute(sql)
        told = translate(raised.value, sent_commit=True, where="here")
        assert isinstance(told, SchemaError)
        assert "fencepost migrate" in str(told)
        assert str(told).startswith("here: ")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('FATAL:  password authentication failed for user "ada"', "password in the URL is wrong"),
        ("fe_sendauth: no password supplied", "has no password"),
        ('FATAL:  no pg_hba.conf entry for host "::1"', "pg_hba.conf"),
        ("FATAL:  sorry, too many clients already", "pool_size"),
        ("FATAL:  remaining connection slots are reserved for superusers", "pool_size"),
        ("FATAL:  the database system is starting up", "wait"),
        ("connection timeout expired", "firewall"),
        ("session is read-only", "standby"),
        ("something new", ""),
    ],
)
def test_a_connection_that_is_refused_says_what_to_do(text: str, hint: str) -> None:
    told = refused(psycopg.OperationalError(f"connection failed: {text}"), where="here")
    assert "cannot connect to here" in str(told)
    assert hint in str(told)


def test_a_missing_database_and_role_and_server_are_named(
    connect: Connect, postgres_url: str
) -> None:
    database = postgres_url.rpartition("/")[2]
    cases = {
        postgres_url.replace(database, "nowhere"): ("nowhere", "create the database"),
        f"{postgres_url}?user=nobody_at_all": ("nobody_at_all", "user in the URL"),
        "postgresql://u:hunter2@127.0.0.1:1/d": ("u:***@127.0.0.1:1/d", "is the server running"),
        "postgresql://u:hunter2@host.invalid/d": ("u:***@host.invalid/d", "not known"),
    }
    for url, parts in cases.items():
        with pytest.raises(StoreUnavailableError) as raised, connect(url).lend():
            pass
        assert all(part in str(raised.value) for part in parts), str(raised.value)
        assert "hunter2" not in str(raised.value)


def test_what_a_job_holds_is_not_quoted() -> None:
    """The server's DETAIL repeats values; its first line does not."""
    error = errors.UniqueViolation("duplicate key\nDETAIL:  Key (k)=(hunter2) already exists.")
    assert "hunter2" not in str(translate(error, sent_commit=False))

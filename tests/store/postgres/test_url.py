"""PostgreSQL URLs. PostgreSQL-specific: no other store has a password to hide."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from fencepost.errors import ConfigurationError
from fencepost.store.postgres.engine.url import POOL_SIZE_DEFAULT, parse

SECRET = "hunter2"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_url_is_split_into_what_libpq_wants(scheme: str) -> None:
    address = parse(f"{scheme}://ada:{SECRET}@db.example:5433/jobs?sslmode=require")
    assert address.options == {
        "user": "ada",
        "password": SECRET,
        "host": "db.example",
        "port": "5433",
        "dbname": "jobs",
        "sslmode": "require",
    }
    assert (address.pool_size, address.listen) == (POOL_SIZE_DEFAULT, None)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_the_driver_of_the_application_makes_no_difference(scheme: str, driver: str) -> None:
    place = f"ada:{SECRET}@a:1,b:2/jobs?sslmode=require&pool_size=3"
    assert parse(f"{scheme}+{driver}://{place}") == parse(f"postgresql://{place}")


def test_what_only_asyncpg_understands_is_translated_or_left_out() -> None:
    tuning = "prepared_statement_cache_size=0&command_timeout=5&ssl=verify-full&user=ada"
    address = parse(f"postgresql+asyncpg://db.example/jobs?{tuning}")
    place = {"host": "db.example", "dbname": "jobs", "user": "ada"}
    assert address.options == {**place, "sslmode": "verify-full"}
    with pytest.raises(ConfigurationError, match="invalid URI query parameter"):
        parse(f"postgresql+psycopg://db.example/jobs?{tuning}")


@pytest.mark.parametrize("driver", ["psycopg2", "pg8000", "psycopg+asyncpg", " "])
def test_another_driver_is_refused_by_name(driver: str) -> None:
    with pytest.raises(ConfigurationError, match="can be psycopg or asyncpg") as caught:
        parse(f"postgresql+{driver}://ada:{SECRET}@db.example/jobs")
    assert SECRET not in str(caught.value)


def test_our_own_options_are_not_shown_to_libpq() -> None:
    direct = f"postgresql://ada:{SECRET}@direct:5432/jobs?sslmode=disable"
    url = f"postgresql://pooler/jobs?pool_size=3&listen={quote(direct, safe='')}&connect_timeout=4"
    address = parse(url)
    assert address.options == {"host": "pooler", "dbname": "jobs", "connect_timeout": "4"}
    assert address.pool_size == 3
    assert address.listen is not None
    assert address.listen.options["host"] == "direct"
    assert address.listen.options["sslmode"] == "disable"


def test_of_several_hosts_the_one_that_can_be_written_to_is_taken() -> None:
    address = parse("postgresql://u@a:1,b:2/jobs")
    assert address.options["host"] == "a,b"
    assert address.options["port"] == "1,2"
    assert address.options["target_session_attrs"] == "read-write"
    assert parse("postgresql://u@a/jobs").options.keys() == {"user", "host", "dbname"}
    chosen = parse("postgresql://u@a,b/jobs?target_session_attrs=any")
    assert chosen.options["target_session_attrs"] == "any"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://u:{SECRET}@h:5/d", "postgresql://u:***@h:5/d"),
        (f"postgres://u:{SECRET}@a:1,b:2/d?sslmode=require", None),
        (f"postgresql://h/d?user=u&password={SECRET}", "postgresql://u:***@h/d"),
        (f"postgresql://h/d?sslpassword={SECRET}", "postgresql://h/d?sslpassword=***"),
        ("postgresql:///d?host=/run/pg", "postgresql://%2Frun%2Fpg/d"),
        ("postgresql:///d", "postgresql:///d"),
        ("postgresql://u@h/d?pool_size=7", "postgresql://u@h/d"),
        ("postgresql://[::1]:5/d", None),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str | None) -> None:
    address = parse(url)
    assert SECRET not in address.shown + repr(address)
    assert shown in (None, address.shown)
    assert parse(address.shown).options.keys() == address.options.keys()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@h/d?nonsense=1",
        f"postgresql://u:{SECRET}@h/d?pool_size=0",
        f"postgresql://u:{SECRET}@h/d?pool_size=many",
        f"postgresql://u:{SECRET}@h/d?pool_size=1001",
        f"postgresql://u:{SECRET}%zz@h/d",
        f"postgresql://u:{SECRET}@[h/d",
        f"postgresql://u:{SECRET}@h:port/d?password={SECRET}&x",
        f"mysql://u:{SECRET}@h/d",
        f"postgresql://h/d?listen={quote(f'mysql://u:{SECRET}@h', safe='')}",
        f"postgresql://h/d?nonsense=1&listen={quote(f'postgresql://u:{SECRET}@h', safe='')}",
        f"postgresql://h/d?listen={quote(f'postgresql://u:{SECRET}@h?listen=x://', safe='')}",
    ],
)
def test_a_url_that_makes_no_sense_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse(url)
    assert SECRET not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_password_with_unescaped_signs_is_not_shown_by_half() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse(f"postgresql://u:1{SECRET}@2{SECRET}@h:x/d?nonsense=1")
    assert SECRET not in str(refusal.value)


def test_every_sign_but_the_question_mark_may_stand_in_a_password() -> None:
    assert parse("postgresql://u:a#b%3Fc@h/d").options["password"] == "a#b?c"


def test_a_refusal_is_short_whatever_the_url_says() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(f"postgresql://me:hunter2@db/shop?{'0' * 5000}=1")
    assert len(str(caught.value)) < 1_000
    assert "hunter2" not in str(caught.value)

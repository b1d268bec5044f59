"""Where jobs are stored: from DATABASES and FENCEPOST to the URL of a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from tests.servers.django import using_database, using_file

from fencepost.django.application import DjangoApp, project_app
from fencepost.django.apps import migrate_store
from fencepost.django.configuration import configured
from fencepost.django.databases import is_database_of_django, store_url, url_of
from fencepost.store.postgres.engine.url import parse


def test_a_file_of_its_own_is_beside_that_of_django(tmp_path: Path) -> None:
    with using_file(tmp_path / "my shop.sqlite3"):
        assert url_of("lite") == f"sqlite:///{tmp_path}/my%20shop-jobs.sqlite3"
    with using_file(f"file:{tmp_path}/shop.db?cache=shared"):
        assert url_of("lite") == f"sqlite:///{tmp_path}/shop-jobs.db"


@pytest.mark.parametrize("name", [":memory:", "file:memorydb_lite?mode=memory&cache=shared"])
def test_beside_a_database_in_memory_jobs_are_in_memory(name: str) -> None:
    with using_file(name):
        assert url_of("lite") == "memory://"


def test_postgres_is_shared_with_every_option(postgres_url: str) -> None:
    with using_database(postgres_url) as connection:
        with psycopg.connect(url_of("default")) as ours:
            assert ours.info.dbname == connection.settings_dict["NAME"]
        connection.settings_dict.update(
            NAME="shop & sons",
            USER="a@b",
            PASSWORD="p/w?#%",
            HOST="/var/run/postgresql",
            OPTIONS={
                "sslmode": "prefer",
                "options": "-c statement_timeout=5s",
                "pool": True,
                "server_side_binding": True,
                "isolation_level": 3,
                "assume_role": "shop",
            },
        )
        options = parse(url_of("default")).options
        connection.settings_dict["OPTIONS"] = {}
    assert {name: value for name, value in options.items() if name != "port"} == {
        "dbname": "shop & sons",
        "user": "a@b",
        "password": "p/w?#%",
        "host": "/var/run/postgresql",
        "sslmode": "prefer",
        "options": "-c statement_timeout=5s",
    }


def test_a_url_of_its_own_comes_first(
    project: DjangoApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside = store_url()
    monkeypatch.setenv("FENCEPOST_URL", "sqlite:///environment.db")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@nowhere/nothing")
    assert store_url() == "sqlite:///environment.db"
    with override_settings(FENCEPOST={"URL": f"sqlite:///{tmp_path}/own.db"}):
        assert project.url == store_url() == f"sqlite:///{tmp_path}/own.db"
    monkeypatch.delenv("FENCEPOST_URL")
    assert project.url == beside


def test_a_store_of_the_environment_is_not_taken_for_that_of_django(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with FENCEPOST['URL']: its transactions are others, and `migrate` leaves it alone."""
    with using_database(postgres_url):
        monkeypatch.setenv("FENCEPOST_URL", "postgresql://elsewhere/jobs")
        with override_settings(FENCEPOST={}):
            assert not is_database_of_django(configured())
            migrate_store(using="default")  # would wait for the server
        with override_settings(FENCEPOST={"DATABASE": "default"}):
            assert is_database_of_django(configured())
        monkeypatch.delenv("FENCEPOST_URL")
        with override_settings(FENCEPOST={}):
            assert is_database_of_django(configured())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"DATABASE": "lit"}, r"does not have; did you mean 'lite'"),
        ({"URI": "redis://"}, r"has no 'URI'; did you mean 'URL'"),
        ({"URL": 7}, r"must be text"),
        ({"ENQUEUE": "later"}, r"'join' or 'on_commit', got 'later'"),
        ({"OPTIONS": {"url": "x"}}, r"but for its store"),
        ([], r"must be a dictionary"),
    ],
    ids=str,
)
def test_a_wrong_setting_says_what_to_write(given: Mapping[str, Any], why: str) -> None:
    with override_settings(FENCEPOST=given), pytest.raises(ImproperlyConfigured, match=why):
        store_url()


def test_the_app_is_the_same_for_all_and_opens_again(project: DjangoApp) -> None:
    from fencepost.django import app

    assert app is project is project_app()
    assert app.jobs.count() == 0
    with app:
        pass
    assert app.jobs.count() == 0


def test_a_store_follows_the_settings(project: DjangoApp, tmp_path: Path) -> None:
    """A test runner puts another database in place of the real one, after tasks were imported."""
    project.jobs.count()
    with using_file(tmp_path / "test_shop.sqlite3"):
        project.follow_settings()
        assert project.jobs.count() == 0
        assert project.session.url == f"sqlite:///{tmp_path}/test_shop-jobs.sqlite3"

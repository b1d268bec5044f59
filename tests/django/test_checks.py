"""``manage.py check``: each common mistake has its message, and a sound project has none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import override_settings
from tests.django import shop
from tests.servers.django import using_database
from tests.worker.support import eventually_sync, working_in_thread

from fencepost.django import application
from fencepost.django import checks as ours
from fencepost.django.application import DjangoApp, project_app


def ids(found: list[Any]) -> list[str]:
    return sorted(each.id for each in found if each.id.startswith("fencepost."))


def test_a_sound_project_has_nothing_to_report(any_project: DjangoApp) -> None:
    alias = "default" if any_project.is_on_postgres else "lite"
    assert ids(checks.run_checks(databases=[alias])) == []


def test_the_checks_are_registered() -> None:
    registered = {check.__name__ for check in checks.registry.registry.get_checks(True)}
    assert {"check_settings", "check_store", "check_deployment"} <= registered


@pytest.mark.parametrize(
    ("setting", "id", "words"),
    [
        ({"DATABASE": "missing"}, "fencepost.E003", "DATABASES does not have"),
        ({"QUEUE": "x"}, "fencepost.E003", "has no 'QUEUE'"),
        ({"URL": "redis://x", "DATABASE": "lite"}, "fencepost.W001", "after the commit"),
        ({"URL": "postgress://x"}, "fencepost.E003", "is not a store URL"),
        ({"URL": "postgresql://x/y?sslmod=require"}, "fencepost.E003", "sslmod"),
    ],
)
def test_a_wrong_setting_is_named(
    project: DjangoApp, setting: Mapping[str, Any], id: str, words: str
) -> None:
    with override_settings(FENCEPOST=setting):
        (found,) = ours.check_settings()
    assert (found.id, words in found.msg) == (id, True)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"QUEUE": "x"}, "has no 'QUEUE'"),
        ({"OPTIONS": {"retires": 3}}, "did you mean 'retry'"),
        ({"OPTIONS": {"retry": 3}}, "retry must be a Retry"),
    ],
)
def test_modules_of_tasks_can_be_imported_with_a_wrong_setting(
    project: DjangoApp, monkeypatch: pytest.MonkeyPatch, setting: Mapping[str, Any], words: str
) -> None:
    """Else `manage.py check` would end with a traceback before any check has run."""
    with override_settings(FENCEPOST={"DATABASE": "lite", **setting}):
        app = DjangoApp()
        app.task(name="noop")(lambda: None)
        monkeypatch.setattr(application, "_made", [app])
        (found,) = ours.check_settings()
        assert (found.id, words in found.msg) == ("fencepost.E003", True)
        assert [*ours.check_deployment(), *ours.check_store(databases=["lite"])] == []
        with pytest.raises(ImproperlyConfigured, match=words):
            app.jobs.count()


def test_a_shared_sqlite_file_is_an_error(project: DjangoApp, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(tmp_path)
    for path in (tmp_path / "shop.sqlite3", tmp_path / "here" / "shop.sqlite3"):
        setting = {"DATABASE": "lite", "URL": f"sqlite:///{path}"}
        with override_settings(FENCEPOST=setting):
            assert "fencepost.E004" in ids(ours.check_settings())
    with override_settings(FENCEPOST={"DATABASE": "lite", "URL": f"sqlite:///{tmp_path}/own.db"}):
        assert "fencepost.E004" not in ids(ours.check_settings())


def test_the_old_driver_is_an_error(
    postgres_project: DjangoApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as it can be shown here: Django's own module says which driver it has chosen."""
    assert ids(ours.check_settings()) == []

    class Psycopg2:
        __name__ = "psycopg2"

    monkeypatch.setattr(connections["default"], "Database", Psycopg2())
    assert ids(ours.check_settings()) == ["fencepost.E005"]


def test_a_store_without_its_schema_is_named(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with using_database(postgres_url), override_settings(FENCEPOST={}):
        project_app().follow_settings()
        assert ours.check_store(databases=None) == []  # a plain `check` connects to nothing
        (found,) = ours.check_store(databases=["default"])
        assert (found.id, found.hint) == ("fencepost.W003", "Run manage.py migrate.")
        monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
        assert ours.check_store(databases=["default"]) == []  # it does so a moment later
        with override_settings(FENCEPOST={"MIGRATE": False}):
            (found,) = ours.check_store(databases=["default"])
            assert found.hint == "Run manage.py fencepost migrate."
        project_app().close()


def test_a_server_that_is_away_is_named(project: DjangoApp) -> None:
    with override_settings(FENCEPOST={"URL": "redis://127.0.0.1:1/0"}):
        (found,) = ours.check_store(databases=["default"])
    assert found.id == "fencepost.W005"


def test_a_queue_that_no_worker_serves_is_named(project: DjangoApp) -> None:
    assert shop.send.queue_name == "mail"
    with working_in_thread(project, queues=["default", "mial"]):
        eventually_sync(lambda: bool(project.workers.list()))
        found = ours.check_store(databases=["lite"])
    assert ids(found) == ["fencepost.W002"]
    assert "'mail'" in found[0].msg
    assert "did you mean 'mial'" in found[0].msg


def test_a_backend_without_the_app_is_an_error(
    project: DjangoApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fencepost.django.framework import task_backends

    entry = {"BACKEND": "fencepost.django.Backend", "QUEUES": ["x" * 1_000]}
    with override_settings(TASKS={"default": entry}):
        assert ids(task_backends()["default"].check()) == ["fencepost.E002"]
        monkeypatch.setattr(apps, "is_installed", lambda name: False)
        assert "fencepost.E001" in ids(task_backends()["default"].check())


def test_a_deployment_is_given_a_thought(
    postgres_project: DjangoApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ids(ours.check_deployment()) == ["fencepost.I001"]
    monkeypatch.setitem(connections["default"].settings_dict, "CONN_MAX_AGE", 60)
    assert ours.check_deployment() == []
    with override_settings(FENCEPOST={"DATABASE": "lite", "URL": "sqlite:///x.db"}):
        assert ids(ours.check_deployment()) == ["fencepost.W004"]

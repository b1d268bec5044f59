"""``fencepost.django.testing``: what it must never touch is a store that is not a test's own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.test import override_settings
from tests.django import shop
from tests.servers.django import using_file

from fencepost.django import checks
from fencepost.django.application import DjangoApp
from fencepost.django.testing import jobs_in_memory, stored_jobs


@pytest.fixture
def test_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process look as if Django's test runner had prepared it."""
    monkeypatch.setattr(mail, "outbox", [], raising=False)


def test_jobs_that_earlier_tests_left_are_cancelled(project: DjangoApp, test_run: None) -> None:
    left = shop.ship.submit(1)
    with stored_jobs() as jobs:
        assert left.refresh().state == "cancelled"
        shop.ship.submit(2)
        assert [ran.state for ran in jobs.run()] == ["completed"]


@pytest.mark.parametrize("is_setting", [True, False], ids=["setting", "environment"])
def test_a_store_with_a_url_of_its_own_is_not_that_of_a_test(
    project: DjangoApp,
    test_run: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_setting: bool,
) -> None:
    url = f"sqlite:///{tmp_path}/real.db"
    if not is_setting:
        monkeypatch.setenv("FENCEPOST_URL", url)
    with override_settings(FENCEPOST={"DATABASE": "lite", **({"URL": url} if is_setting else {})}):
        project.follow_settings()
        live = shop.ship.submit(1)
        with pytest.raises(ImproperlyConfigured, match="not that of a test database"):
            stored_jobs().__enter__()
        assert live.refresh().state == "scheduled"
        project.close()


def test_outside_of_a_test_run_every_store_is_a_real_one(
    project: DjangoApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(mail, "outbox", raising=False)
    live = shop.ship.submit(1)
    with pytest.raises(ImproperlyConfigured, match="Django's test runner"):
        stored_jobs().__enter__()
    assert live.refresh().state == "scheduled"


def test_a_test_database_can_be_dropped_while_the_app_is_open(
    postgres_project: DjangoApp,
) -> None:
    """Django's test runner drops it without force, and knows nothing of our connections."""
    shop.ship.submit(1)
    wrapper = connections["default"]
    with wrapper._nodb_cursor() as cursor:  # what it creates and drops databases with
        cursor.execute(
            "select count(*) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()",
            [wrapper.settings_dict["NAME"]],
        )
        (others,) = cursor.fetchone()
    wrapper.close()
    assert others <= 1  # Django's own, which it closes before
    assert postgres_project.jobs.count() == 1  # opens again


def test_a_rollback_in_a_test_on_sqlite_submits_nothing(project: DjangoApp, test_run: None) -> None:
    """As in production; the database of a test is in memory, and so is its store."""
    with using_file(":memory:"), stored_jobs() as jobs:
        with suppress(ZeroDivisionError), transaction.atomic(using="lite"):
            shop.send.enqueue("a")
            raise ZeroDivisionError
        with transaction.atomic(using="lite"):
            shop.send.enqueue("b")
            assert jobs.list() == []
        assert len(jobs.run()) == 1
        with jobs_in_memory() as jobs, transaction.atomic(using="lite"):
            shop.send.enqueue("c")
            assert len(jobs.run()) == 1
    project.session.redirect(project.url)  # a store in memory would stay


def test_what_the_app_does_not_take_is_named(project: DjangoApp) -> None:
    with override_settings(FENCEPOST={"DATABASE": "lite", "OPTIONS": {"retries": 3}}):
        (found,) = checks.check_settings()
    assert "has 'retries', which App(…) does not take; did you mean 'retry'?" in found.msg
    with override_settings(FENCEPOST={"Url": "redis://x"}):
        (found,) = checks.check_settings()
    assert "did you mean 'URL'?" in found.msg

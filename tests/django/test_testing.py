"""``fencepost.django.testing``: what it must never touch is a store that is not a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from tests.django import shop

from fencepost.django.application import DjangoApp
from fencepost.django.testing import stored_jobs


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

"""What Django's test runner does with databases, with jobs in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections, transaction
from django.test import override_settings
from tests.django import shop
from tests.servers.django import using_database

from fencepost.django.application import DjangoApp, project_app


@pytest.fixture
def runner_project(postgres_url: str) -> Iterator[DjangoApp]:
    """The project before the test runner makes a database."""
    with using_database(postgres_url), override_settings(FENCEPOST={}):
        app = project_app()
        app.follow_settings()
        yield app
        app.close()


def test_the_test_runner_makes_clones_and_removes_databases(runner_project: DjangoApp) -> None:
    """PostgreSQL refuses to clone and to remove a database to which anybody is connected."""
    connection = connections["default"]
    before, creation = connection.settings_dict["NAME"], connection.creation
    name = creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        creation.clone_test_db("1", verbosity=0, autoclobber=True)
        creation.destroy_test_db(suffix="1", verbosity=0)
        with transaction.atomic():
            shop.add.enqueue(1)
        assert (runner_project.jobs.count(), runner_project.url.count(name)) == (1, 1)
    finally:
        creation.destroy_test_db(before, verbosity=0)
    assert connection.settings_dict["NAME"] == before

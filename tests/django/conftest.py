"""A Django project in the process of the tests, on a SQLite store or on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.test import override_settings
from tests.servers.django import configure, using_database, using_file

configure()

from fencepost.django.application import DjangoApp, project_app  # noqa: E402 - after the settings


@pytest.fixture
def project(tmp_path: Path) -> Iterator[DjangoApp]:
    """The project's app on a file beside Django's SQLite database."""
    with using_file(tmp_path / "shop.sqlite3"), override_settings(FENCEPOST={"DATABASE": "lite"}):
        yield from _opened()


@pytest.fixture
def postgres_project(postgres_url: str) -> Iterator[DjangoApp]:
    """The same in PostgreSQL, with its schema."""
    with using_database(postgres_url), override_settings(FENCEPOST={}):
        app = project_app()
        app.follow_settings()
        app.migrate()
        yield from _opened()


@pytest.fixture(params=["project", "postgres_project"])
def any_project(request: pytest.FixtureRequest) -> DjangoApp:
    """Each of them in turn."""
    app: DjangoApp = request.getfixturevalue(request.param)
    return app


def _opened() -> Iterator[DjangoApp]:
    app = project_app()
    app.follow_settings()
    with ExitStack() as stack:
        stack.callback(app.close)
        yield app

"""What an integration with a framework sets on an app: its store, and what submissions join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost import App, ConfigurationError


def test_a_store_is_where_it_is_located_when_it_is_opened(tmp_path: Path) -> None:
    app = App("sqlite:////nowhere/at/all.db")
    place = [f"sqlite:///{tmp_path}/one.db"]
    app.session.locate = lambda: place[0]
    assert app.jobs.count() == 0
    place[0] = f"sqlite:///{tmp_path}/two.db"
    assert app.session.url.endswith("one.db")  # it is open
    app.session.redirect(app.session.url)
    assert app.jobs.count() == 0
    assert app.session.url.endswith("two.db")
    app.close()


def test_submissions_join_the_transaction_that_is_open(postgres_url: str) -> None:
    with App(postgres_url) as app, psycopg.connect(postgres_url) as connection:
        app.migrate()

        @app.task
        def work(number: int) -> None: ...

        current: list[Any] = [connection]
        app.session.transaction = lambda: current[0]
        work.submit(1)
        app.submit_many([work.prepare(2)])
        with pytest.raises(ConfigurationError, match="commit"):
            work.wait(3)
        with psycopg.connect(postgres_url) as other:
            work.using(conn=other).submit(4)
        assert app.jobs.count() == 1  # that which named another connection
        connection.rollback()
        assert app.jobs.count() == 1
        current[0] = None
        work.submit(5)
        assert app.jobs.count() == 2

"""Jobs and ``transaction.atomic()``: part of it in PostgreSQL, after its commit elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from django.conf import settings
from django.db import DatabaseError, connections, transaction
from django.test import override_settings
from tests.django import shop
from tests.servers.postgres import Postgres

from fencepost import ConfigurationError
from fencepost.django.application import DjangoApp
from fencepost.django.databases import open_transaction
from fencepost.django.framework import TaskResultDoesNotExist, TaskResultStatus
from fencepost.store.postgres.engine.url import parse


class UndoneError(Exception):
    """Rolls a transaction back."""


@contextmanager
def rolled_back(alias: str = "default") -> Iterator[None]:
    with suppress(UndoneError), transaction.atomic(using=alias):
        yield
        raise UndoneError


SUBMISSIONS: dict[str, Callable[[DjangoApp], object]] = {
    "Django's task": lambda app: shop.add.enqueue(1),
    "a task": lambda app: shop.ship.submit(1),
    "a task with a key": lambda app: shop.ship.submit_idempotent("k", 1),
    "many": lambda app: app.submit_many([shop.ship.prepare(1)]),
    "a flow": lambda app: app.flow({"a": shop.ship.prepare(1)}).submit(),
    "an event": lambda app: app.event("order.paid").send(order=1),
}
each_submission = pytest.mark.parametrize("submit", SUBMISSIONS.values(), ids=SUBMISSIONS)


@each_submission
def test_a_job_is_part_of_the_transaction(
    postgres_project: DjangoApp, submit: Callable[[DjangoApp], object]
) -> None:
    with transaction.atomic():
        submit(postgres_project)
        assert postgres_project.jobs.count() == 0  # others do not see it yet
    assert postgres_project.jobs.count() == 1


@each_submission
def test_a_rollback_leaves_no_job(
    postgres_project: DjangoApp, submit: Callable[[DjangoApp], object]
) -> None:
    with rolled_back():
        submit(postgres_project)
    assert postgres_project.jobs.count() == 0
    with transaction.atomic():
        with rolled_back():
            submit(postgres_project)
        shop.add.enqueue(1)
    assert postgres_project.jobs.count() == 1


@each_submission
def test_without_a_transaction_a_job_is_stored_at_once(
    any_project: DjangoApp, submit: Callable[[DjangoApp], object]
) -> None:
    submit(any_project)
    assert any_project.jobs.count() == 1


def test_a_result_does_not_exist_before_the_commit(any_project: DjangoApp) -> None:
    alias = "default" if any_project.is_on_postgres else "lite"
    with transaction.atomic(using=alias):
        result = shop.add.enqueue(1)
        with pytest.raises(TaskResultDoesNotExist):
            shop.add.get_result(result.id)
    assert shop.add.get_result(result.id).status == TaskResultStatus.READY


def test_elsewhere_a_job_is_submitted_after_the_commit(project: DjangoApp) -> None:
    with rolled_back("lite"):
        shop.add.enqueue(1)
    assert project.jobs.count() == 0
    with transaction.atomic(using="lite"):
        with transaction.atomic(using="lite"):
            inner = shop.add.enqueue(1)
        assert project.jobs.count() == 0
    assert shop.add.get_result(inner.id).id == inner.id


def test_after_the_commit_can_be_chosen(postgres_project: DjangoApp) -> None:
    with override_settings(FENCEPOST={"ENQUEUE": "on_commit"}):
        postgres_project.follow_settings()
        with transaction.atomic():
            result = shop.add.enqueue(1)
            # A job of the transaction would have locked its row in this table.
            with connections["default"].cursor() as cursor:
                cursor.execute("select count(*) from fencepost.submissions")
                assert cursor.fetchone() == (0,)
        assert shop.add.get_result(result.id).id == result.id
        with rolled_back():
            shop.add.enqueue(2)
        assert postgres_project.jobs.count() == 1


@pytest.mark.parametrize("scheme", ["PostgreSQL", "postgres", "postgresql+psycopg"])
def test_a_url_of_any_spelling_is_postgres(postgres_project: DjangoApp, scheme: str) -> None:
    url = postgres_project.url.replace("postgresql", scheme, 1)
    with override_settings(FENCEPOST={"URL": url, "DATABASE": "default"}):
        postgres_project.follow_settings()
        with rolled_back():
            shop.ship.submit(1)
            shop.add.enqueue(1)
        assert postgres_project.jobs.count() == 0


def test_the_transaction_of_another_database_is_not_joined(postgres_project: DjangoApp) -> None:
    with transaction.atomic(using="lite"):
        shop.add.enqueue(1)
        assert postgres_project.jobs.count() == 1


@pytest.mark.parametrize("is_setting", [True, False], ids=["setting", "environment"])
def test_the_database_decides_and_not_how_its_url_was_given(
    postgres_project: DjangoApp,
    postgres_server: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    is_setting: bool,
) -> None:
    """A URL of Django's own database is joined; with that of another one, nothing is refused."""
    own = parse(postgres_project.url).options
    elsewhere = postgres_server.create_database(f"{own['dbname']}_elsewhere")
    here = f"postgresql://{own['user']}@{own['host']}:{own['port']}/{own['dbname']}"
    with override_settings(FENCEPOST={}):
        for url, is_kept in ((here, False), (elsewhere, True)):
            if is_setting:
                monkeypatch.setattr(settings, "FENCEPOST", {"URL": url})
            else:
                monkeypatch.setenv("FENCEPOST_URL", url)
            postgres_project.follow_settings()
            postgres_project.migrate()
            with rolled_back():
                shop.ship.submit(1)
            assert (postgres_project.jobs.count() == 1) == is_kept
            with transaction.atomic():
                shop.add.enqueue(1)
            assert postgres_project.jobs.count() == 1 + is_kept
    postgres_project.close()
    postgres_server.drop_database(f"{own['dbname']}_elsewhere")


def test_a_transaction_that_can_only_be_rolled_back_is_refused(
    postgres_project: DjangoApp,
) -> None:
    with rolled_back():
        connections["default"].set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            shop.add.enqueue(1)
        with pytest.raises(transaction.TransactionManagementError):
            shop.ship.submit(1)
    assert postgres_project.jobs.count() == 0


def test_an_error_of_the_database_is_one_of_django(postgres_project: DjangoApp) -> None:
    with rolled_back(), connections["default"].cursor() as cursor:
        with pytest.raises(DatabaseError):
            cursor.execute("select * from nowhere")
        with pytest.raises(DatabaseError, match="aborted"):
            shop.add.enqueue(1)
    assert postgres_project.jobs.count() == 0


def test_nothing_waits_for_a_result_within_a_transaction(postgres_project: DjangoApp) -> None:
    with transaction.atomic(), pytest.raises(ConfigurationError, match="commit"):
        shop.ship.wait(1, timeout=5)


async def test_what_is_awaited_joins_nothing(postgres_project: DjangoApp) -> None:
    """On an event loop Django has no transaction; psycopg would block the loop besides."""
    await shop.ship.aio.submit(1)
    await postgres_project.aio.submit_many([shop.ship.prepare(2)])
    assert await postgres_project.aio.jobs.count() == 2


def test_manual_transactions_are_joined(postgres_project: DjangoApp) -> None:
    transaction.set_autocommit(False)
    try:
        shop.ship.submit(1)
        assert postgres_project.jobs.count() == 0
        transaction.rollback()
        shop.ship.submit(2)
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert postgres_project.jobs.count() == 1


def test_a_project_without_autocommit_has_a_transaction_from_the_first_query_on(
    postgres_project: DjangoApp,
) -> None:
    """A submission may be the first query: it must not be stored before the rest of them."""
    connection = connections["default"]
    connection.close()
    connection.settings_dict["AUTOCOMMIT"] = False
    try:
        shop.ship.submit(1)
        assert postgres_project.jobs.count() == 0
        transaction.rollback()
        connection.close()
        shop.add.enqueue(2)
        transaction.commit()
        assert postgres_project.jobs.count() == 1
    finally:
        connection.settings_dict["AUTOCOMMIT"] = True
        connection.close()


def test_a_connection_that_was_never_opened_has_no_transaction(project: DjangoApp) -> None:
    from fencepost.django.configuration import configured

    connections["lite"].close()
    assert open_transaction(configured()) is None
    assert connections["lite"].connection is None

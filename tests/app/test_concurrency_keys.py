"""Concurrency keys through the app: by parameter, by function, by hand; and run by a worker."""

from __future__ import annotations

from typing import Any

import pytest
from tests.worker.support import drain

from fencepost import App, ConfigurationError, InvalidJobError, State


def test_a_parameter_names_the_key(app: App) -> None:
    @app.task(concurrency_key="tenant_id", max_running_per_key=2)
    def sync(tenant_id: int, page: int = 0) -> None: ...

    states = [sync.submit(7, page).state for page in range(3)]
    assert states == [State.SCHEDULED, State.SCHEDULED, State.PENDING]
    assert sync.submit(8).state is State.SCHEDULED
    assert sync.prepare(7).concurrency_key == "7"
    assert sync.prepare(7).policy.max_running_per_key == 2


def test_a_function_of_the_arguments_makes_the_key(app: App) -> None:
    @app.task(concurrency_key=lambda tenant_id: f"tenant:{tenant_id}")
    def sync(tenant_id: int) -> None: ...

    new = sync.prepare(7)
    assert (new.concurrency_key, new.policy.max_running_per_key) == ("tenant:7", 1)


def test_a_key_given_by_hand_wins(app: App) -> None:
    @app.task(concurrency_key="tenant_id", max_running_per_key=3)
    def sync(tenant_id: int) -> None: ...

    new = sync.using(concurrency_key="all").prepare(7)
    assert (new.concurrency_key, new.policy.max_running_per_key) == ("all", 3)


def test_any_task_can_be_given_a_key(app: App) -> None:
    @app.task
    def sync() -> None: ...

    keyed = sync.using(concurrency_key="tenant:7")
    first, second = keyed.submit(), keyed.submit()
    assert (first.state, second.state) == (State.SCHEDULED, State.PENDING)
    assert sync.submit().state is State.SCHEDULED
    assert [reason.code for reason in second.why()] == ["pending_key"]


def test_without_a_key_there_is_no_limit(app: App) -> None:
    @app.task(concurrency_key="tenant_id", max_running_per_key=1)
    def sync(tenant_id: int | None = None) -> None: ...

    new = sync.prepare()
    assert (new.concurrency_key, new.policy.max_running_per_key) == (None, None)


def test_every_job_of_a_bulk_has_the_key_of_its_own_arguments(app: App) -> None:
    @app.task(concurrency_key="tenant_id")
    def sync(tenant_id: int) -> None: ...

    jobs = sync.submit_many([7, 7, 8])
    assert [job.state for job in jobs] == [State.SCHEDULED, State.PENDING, State.SCHEDULED]


async def test_a_worker_runs_them_one_after_the_other(app: App) -> None:
    running: list[int] = []
    order: list[tuple[int, int]] = []

    @app.task(concurrency_key="tenant_id")
    async def sync(tenant_id: int, page: int) -> None:
        assert tenant_id not in running
        running.append(tenant_id)
        order.append((tenant_id, page))
        running.remove(tenant_id)

    sync.submit_many([(tenant, page) for tenant in (7, 8) for page in range(5)])
    await drain(app)
    assert app.jobs.count(state=State.COMPLETED) == 10
    for tenant in (7, 8):
        assert [page for each, page in order if each == tenant] == list(range(5))


@pytest.mark.parametrize("limit", [0, -1, "2", 10_001, True])
def test_a_limit_that_makes_no_sense_is_refused(app: App, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_running_per_key must lie between 1 and"):
        app.task(concurrency_key="x", max_running_per_key=limit)(lambda x: None)


def test_a_key_that_names_no_parameter_is_refused(app: App) -> None:
    with pytest.raises(ConfigurationError, match=r"must name one of its parameters \('tenant'\)"):

        @app.task(concurrency_key="tenant_id")
        def sync(tenant: int) -> None: ...


@pytest.mark.parametrize("key", ["", "x" * 257, 7, "a\nb"])
def test_a_key_that_is_none_is_refused(app: App, key: Any) -> None:
    @app.task
    def sync() -> None: ...

    with pytest.raises(InvalidJobError, match="concurrency_key"):
        sync.using(concurrency_key=key)

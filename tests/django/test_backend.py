"""``fencepost.django.Backend``: the interface of Django's tasks, and what stands behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone
from tests.django import shop

from fencepost.core.job.policy import Priority
from fencepost.django import Backend
from fencepost.django.application import DjangoApp
from fencepost.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    signals,
    task_backends,
)
from fencepost.django.results import parse_priority
from fencepost.errors import PayloadTooLargeError
from fencepost.testing import drain


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    shop.SEEN.clear()


def run(app: DjangoApp) -> None:
    app.worker(concurrency=4).run(until_idle=True)


@contextmanager
def hearing() -> Iterator[list[tuple[str, Any, Any]]]:
    """Note each signal with the status and the id that it came with."""
    heard: list[tuple[str, Any, Any]] = []
    names = ("task_enqueued", "task_started", "task_finished")
    receivers = []
    for name in names:

        def receive(*, task_result: Any, name: str = name, **_: Any) -> None:
            heard.append((name, str(task_result.status), task_result.id))

        getattr(signals(), name).connect(receive, weak=False)
        receivers.append((name, receive))
    yield heard
    for name, receive in receivers:
        getattr(signals(), name).disconnect(receive)


def test_the_setting_leads_to_the_backend(project: DjangoApp) -> None:
    backend = task_backends()["default"]
    assert isinstance(backend, Backend)
    assert isinstance(backend, BaseTaskBackend)
    supports = ("defer", "async_task", "get_result", "priority")
    assert all(getattr(backend, f"supports_{name}") for name in supports)


def test_a_task_is_enqueued_and_run(any_project: DjangoApp) -> None:
    result = shop.add.enqueue(2, b=3)
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [2], {"b": 3})
    assert result.enqueued_at is not None
    assert (result.started_at, result.finished_at, result.attempts) == (None, None, 0)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    run(any_project)
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value == 5
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert (result.attempts, result.errors) == (1, [])
    again = shop.add.get_result(result.id)
    assert (again.args, again.kwargs, again.task) == ([2], {"b": 3}, shop.add)


async def test_the_awaited_names_do_the_same(any_project: DjangoApp) -> None:
    result = await shop.add_async.aenqueue(2, 3)
    await any_project.worker().aio.run(until_idle=True)
    await result.arefresh()
    assert result.return_value == 5
    assert (await shop.add_async.aget_result(result.id)).is_finished


def test_a_result_says_what_task_it_is_of(project: DjangoApp) -> None:
    later = timezone.now() + timedelta(hours=1)
    result = shop.send.using(priority=-7, run_after=later).enqueue("ada")
    read = shop.send.get_result(result.id)
    assert (read.task.priority, read.task.queue_name, read.task.run_after) == (-7, "mail", later)
    assert (read.backend, read.task.backend) == ("default", "default")
    run(project)
    result.refresh()
    assert result.status == TaskResultStatus.READY
    with pytest.raises(Exception, match="does not match"):
        shop.add.get_result(result.id)


@pytest.mark.parametrize("id", ["", "no id", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_result_does_not_exist(project: DjangoApp, id: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result(id)


def test_a_job_of_another_kind_has_no_result(project: DjangoApp) -> None:
    job = shop.ship.submit(7)
    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result(job.id)


def test_a_failure_has_its_exception_and_its_traceback(project: DjangoApp) -> None:
    result = shop.fail.enqueue("E7")
    with hearing() as heard:
        run(project)
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class.__name__ == "PermanentError"
    assert "refused E7" in error.traceback
    assert "shop.py" in error.traceback
    assert [(name, status) for name, status, _ in heard] == [
        ("task_started", "RUNNING"),
        ("task_finished", "FAILED"),
    ]


def test_attempts_are_counted_and_their_errors_kept(any_project: DjangoApp) -> None:
    result = shop.flaky.enqueue(fails=2)
    with hearing() as heard:
        for _ in range(3):
            run(any_project)
            result.refresh()
            if not result.is_finished:  # it waits for its backoff
                any_project.jobs.retry(result.id, reset_attempts=False)
    assert shop.SEEN == [1, 2, 3]
    assert result.return_value == [result.id, "RUNNING", 2, True]
    assert result.attempts == 3
    assert len(result.errors) == 2
    assert result.started_at < result.last_attempted_at
    assert [name for name, _, _ in heard] == ["task_started"] * 3 + ["task_finished"]


def test_a_job_that_waits_for_its_next_attempt_is_ready_again(project: DjangoApp) -> None:
    result = shop.flaky.enqueue(fails=1)
    drain(project)
    result.refresh()
    assert result.status in (TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL)
    assert result.attempts >= 1
    assert len(result.errors) == 1


def test_a_cancelled_job_has_failed(project: DjangoApp) -> None:
    result = shop.add.enqueue(1)
    project.jobs.cancel(result.id)
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.attempts == 0
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_signals_come_in_order_and_with_one_id(project: DjangoApp) -> None:
    with hearing() as heard:
        result = shop.send.enqueue("ada")
        run(project)
    assert heard == [
        ("task_enqueued", "READY", result.id),
        ("task_started", "RUNNING", result.id),
        ("task_finished", "SUCCESSFUL", result.id),
    ]


def test_a_receiver_that_raises_changes_nothing(project: DjangoApp) -> None:
    def raise_always(**_: Any) -> None:
        raise RuntimeError("a broken receiver")

    modules = [signals().task_enqueued, signals().task_started, signals().task_finished]
    for each in modules:
        each.connect(raise_always)
    try:
        result = shop.add.enqueue(1)
        run(project)
    finally:
        for each in modules:
            each.disconnect(raise_always)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.SUCCESSFUL, 1)


def test_priorities_keep_their_order() -> None:
    ours = [parse_priority(number) for number in range(-100, 101)]
    assert ours == sorted(ours, reverse=True)
    assert set(ours) == set(Priority)
    assert parse_priority(0) is Priority.NORMAL
    assert parse_priority(-1) is Priority.LOW
    assert parse_priority(1) is Priority.HIGH


def test_a_higher_priority_starts_first(project: DjangoApp) -> None:
    for number in (-100, 0, 100, 5):
        shop.send.using(priority=number).enqueue(str(number))
    project.worker(concurrency=1).run(until_idle=True)
    assert shop.SEEN == ["100", "5", "0", "-100"]


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 101},
        {"priority": -101},
        {"queue_name": "unknown"},
        {"run_after": datetime(2200, 1, 1)},  # noqa: DTZ001 - which is the mistake
    ],
)
def test_what_django_refuses_is_refused(project: DjangoApp, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        shop.add.using(**options)


def test_a_function_that_no_worker_could_import_is_refused(project: DjangoApp) -> None:
    with pytest.raises(InvalidTask):
        shop.task(lambda: None)


def test_arguments_and_results_are_json(project: DjangoApp) -> None:
    with pytest.raises(TypeError):
        shop.add.enqueue(object())
    assert project.jobs.count() == 0
    result = shop.unserialisable.enqueue()
    drain(project)
    result.refresh()
    assert "TypeError" in result.errors[0].exception_class_path


@pytest.mark.parametrize(
    ("task", "given", "why"),
    [
        (shop.add, {"args": []}, "missing a required argument: 'a'"),
        (shop.add, {"args": [1, 2, 3]}, "too many positional arguments"),
        (shop.add, {"args": [1], "kwargs": {"c": 2}}, "unexpected keyword argument 'c'"),
        (shop.flaky, {"args": []}, "missing a required argument: 'fails'"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_of_the_caller(
    project: DjangoApp, task: Any, given: dict[str, Any], why: str
) -> None:
    """Not a dead letter after three attempts in a worker."""
    with pytest.raises(TypeError, match=why):
        task.enqueue(*given["args"], **given.get("kwargs", {}))
    assert project.jobs.count() == 0


def test_a_payload_that_is_too_large_is_refused(project: DjangoApp) -> None:
    with pytest.raises(PayloadTooLargeError):
        shop.send.enqueue("x" * 2_000_000)


def test_times_are_as_the_project_has_them(project: DjangoApp) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin"):
        later = datetime(2200, 1, 1, 12, 0)  # noqa: DTZ001 - naive, as without USE_TZ
        with pytest.raises(Exception, match="lifetime"):
            shop.send.using(run_after=later).enqueue("ada")
        soon = (timezone.now() + timedelta(minutes=5)).replace(microsecond=0)
        assert soon.tzinfo is None
        result = shop.send.using(run_after=soon).enqueue("ada")
        assert result.enqueued_at.tzinfo is None
        read = shop.send.get_result(result.id)
        assert (read.task.run_after, read.enqueued_at.tzinfo) == (soon, None)
    job = project.jobs.get(result.id).refresh()
    assert timedelta(minutes=4) < job.run_at - job.created_at < timedelta(minutes=6)


def test_two_aliases_share_the_app(project: DjangoApp) -> None:
    entry = {"BACKEND": "fencepost.django.Backend", "QUEUES": ["default", "mail"]}
    with override_settings(TASKS={"default": entry, "other": entry}):
        result = shop.add.using(backend="other").enqueue(1)
        assert result.backend == "other"
        run(project)
        assert shop.add.using(backend="other").get_result(result.id).return_value == 2

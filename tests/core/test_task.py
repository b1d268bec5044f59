"""A task and where its handler runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.core.job.policy import Priority
from fencepost.core.job.task import Isolation, Task, isolation_of
from fencepost.core.values.signature import Signature
from fencepost.errors import ConfigurationError


class Context:
    """What a worker hands to the handler itself."""


def blocking() -> None: ...


async def awaited() -> None: ...


def task(function: Callable[..., Any]) -> Task:
    return Task(
        type="t",
        function=function,
        signature=Signature(function, Context),
        isolation=isolation_of(function, None),
    )


@pytest.mark.parametrize(
    ("function", "requested", "isolation"),
    [
        (blocking, None, Isolation.THREAD),
        (blocking, "thread", Isolation.THREAD),
        (blocking, "process", Isolation.PROCESS),
        (awaited, None, Isolation.LOOP),
        (awaited, "loop", Isolation.LOOP),
        (awaited, "process", Isolation.PROCESS),
    ],
)
def test_a_handler_runs_where_it_can(
    function: Callable[..., Any], requested: str | None, isolation: Isolation
) -> None:
    """S0-92: only a process can be killed at its timeout."""
    assert isolation_of(function, requested) is isolation


@pytest.mark.parametrize(
    ("function", "requested", "message"),
    [
        (blocking, "loop", "needs an `async def`"),
        (awaited, "thread", "an `async def` runs on the loop"),
        (blocking, "container", "isolation must be"),
        (lambda: None, "process", "needs a function at module level"),
    ],
)
def test_a_handler_that_cannot_run_there_is_refused_at_the_decorator(
    function: Callable[..., Any], requested: str, message: str
) -> None:
    """S0-92."""
    with pytest.raises(ConfigurationError, match=message):
        isolation_of(function, requested)


def test_a_function_within_a_function_cannot_be_found_by_another_process() -> None:
    """S0-92."""

    def local() -> None: ...

    with pytest.raises(ConfigurationError, match="local is not"):
        isolation_of(local, "process")


def test_a_task_is_normal_and_in_the_default_queue_unless_it_says_otherwise() -> None:
    """S1-32, S0-8."""
    assert task(blocking).priority is Priority.NORMAL
    assert task(blocking).queue == "default"


def test_a_task_knows_whether_it_is_awaited() -> None:
    """S0-92."""
    assert isolation_of(awaited, None) is Isolation.LOOP
    assert isolation_of(blocking, None) is Isolation.THREAD

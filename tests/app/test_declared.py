"""A task is still the function that was declared, and what cannot be a task is refused."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from fencepost import App, Client, ConfigurationError, Context, InvalidJobError, TaskHandle

app = App("memory://")


@app.task
def add(a: int, b: int = 0) -> int:
    """Return the sum."""
    return a + b


class Shop:
    @staticmethod
    @app.task
    def open(door: int) -> int:
        return door + 1


def test_a_task_keeps_what_describes_its_function() -> None:
    assert (add.__name__, add.__qualname__, add.__module__) == ("add", "add", __name__)
    assert add.__doc__ == inspect.getdoc(add) == "Return the sum."
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert inspect.unwrap(add) is add.__wrapped__
    assert add(1, b=2) == add.__wrapped__(1, b=2) == 3
    assert repr(add) == "<TaskHandle add>"


def test_a_handler_of_an_event_and_a_cron_keep_it_too(app: App) -> None:
    @app.event("user.created").on(queue="mail")
    async def welcome(user_id: int) -> None:
        """Say hello."""

    @app.cron("@daily")
    @app.task(name="nightly")
    def report() -> None:
        """Write it."""

    assert (welcome.__name__, welcome.__doc__) == ("welcome", "Say hello.")
    assert (report.__name__, report.__doc__, report.type) == ("report", "Write it.", "nightly")


def test_the_class_of_a_task_keeps_its_own_names() -> None:
    assert type(add) is TaskHandle
    assert TaskHandle.__module__ == "fencepost.handles.task"
    assert add.using(queue="mail")(1) == 1


def test_a_method_is_refused_with_what_to_write_instead(app: App) -> None:
    with pytest.raises(ConfigurationError, match=r"Mailer\.send\(\) is a method.*module level"):

        class Mailer:
            @app.task
            def send(self, to: str) -> None: ...

    with pytest.raises(ConfigurationError, match=r"is a method, and cannot be a task"):

        class Async:
            @app.task(queue="mail")
            async def send(self, ctx: Context, to: str) -> None: ...

    with pytest.raises(ConfigurationError, match="cannot take a classmethod"):

        class Maker:
            @app.task
            @classmethod
            def make(cls, to: str) -> None: ...

    with pytest.raises(ConfigurationError, match="put @staticmethod above"):

        class Tool:
            @app.task
            @staticmethod
            def use(to: str) -> None: ...

    assert app.session.tasks == {}


def test_a_static_method_a_bound_one_and_a_parameter_called_self_are_no_methods(app: App) -> None:
    job = Shop.open.submit(1)
    Shop.open._session  # noqa: B018 - it is a handle, and not a bound method
    assert job.type == "open"

    class Bound:
        def work(self, n: int) -> int:
            return n

    def of(self: int) -> int:
        return self

    assert app.task(Bound().work).submit(1).type == "work"
    assert app.task(of).submit(1).type == "of"


@pytest.mark.parametrize("wrong", ["hihg", "", 5, -1, True])
def test_a_wrong_priority_is_refused_with_the_names(app: App, wrong: Any) -> None:
    with pytest.raises(InvalidJobError, match='"critical", "high", "normal", "low" or "bulk"'):
        app.task(priority=wrong)
    with pytest.raises(InvalidJobError, match='"critical", "high", "normal", "low" or "bulk"'):
        add.using(priority=wrong)


async def test_prepared_jobs_are_for_the_app(app: App) -> None:
    task = app.task(add.__wrapped__)
    prepared = [task.prepare(1), task.prepare(2)]
    line = r"give prepared jobs to app\.submit_many\(\[add\.prepare\(…\), …\]\)"
    with pytest.raises(InvalidJobError, match=line):
        task.submit_many(prepared)
    with pytest.raises(InvalidJobError, match=line):
        await task.aio.submit_many(prepared)
    assert len(app.submit_many(prepared)) == 2


async def test_arguments_are_for_the_task(app: App) -> None:
    wrong: Any = [(1, 2)]
    with pytest.raises(InvalidJobError, match=r"takes prepared jobs, such as task\.prepare\(…\)"):
        app.submit_many(wrong)
    with pytest.raises(InvalidJobError, match=r"task\.submit_many\(\[…\]\) takes the arguments"):
        await app.aio.submit_many(wrong)


def test_a_client_says_the_same() -> None:
    client = Client("http://x")
    task = client.task("add")
    wrong: Any = [task.prepare(a=1)]
    with pytest.raises(InvalidJobError, match=r"give prepared jobs to client\.submit_many"):
        task.submit_many(wrong)

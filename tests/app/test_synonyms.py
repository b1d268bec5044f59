"""Names of other queues are answered with the line to write here."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fencepost import App, Client, ConfigurationError
from fencepost.actions.options import UsingOptions
from fencepost.actions.synonyms import METHODS, OPTIONS

app = App("memory://")


@app.task
def send_mail(to: str) -> None: ...


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("delay", "send_mail.submit(…)"),
        ("apply_async", "send_mail.using(delay=60).submit(…)"),
        ("enqueue", "send_mail.submit(…)"),
        ("send", "send_mail.submit(…)"),
        ("send_with_options", "send_mail.using(delay=60).submit(…)"),
        ("s", "send_mail.prepare(…)"),
        ("kiq", "send_mail.submit(…)"),
    ],
)
def test_a_method_of_another_queue_shows_the_line_to_write(method: str, line: str) -> None:
    for task in (send_mail, send_mail.using(queue="mail"), Client("http://x").task("send_mail")):
        with pytest.raises(AttributeError) as caught:
            getattr(task, method)
        assert str(caught.value).startswith(f"a task has no {method}(); write ")
        assert line in str(caught.value)
        assert not hasattr(task, method)


def test_the_awaited_face_shows_the_awaited_line() -> None:
    for task in (send_mail.aio, Client("http://x").aio.task("send_mail")):
        with pytest.raises(AttributeError, match=r"write await send_mail\.aio\.submit\(…\)"):
            getattr(task, "delay")  # noqa: B009 - mypy refuses the plain form, as it should


def test_any_other_name_is_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="'TaskHandle' object has no attribute 'nonsense'"):
        getattr(send_mail, "nonsense")  # noqa: B009 - as above
    assert copy.copy(send_mail).type == "send_mail"


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("countdown", 60, ".using(delay=60).submit(…)"),
        ("countdown", "10m", ".using(delay='10m').submit(…)"),
        ("countdown", timedelta(60), ".using(delay=datetime.timedelta(days=60)).submit(…)"),
        ("eta", datetime(2027, 1, 1, tzinfo=UTC), ".using(run_at=…).submit(…)"),
        ("max_retries", 5, ".using(retry=Retry(max_retries=5)).submit(…)"),
        ("task_id", "a", "key='a'"),
    ],
)
def test_an_option_of_another_queue_shows_the_line_to_write(
    option: str, value: Any, line: str
) -> None:
    for task in (send_mail, send_mail.aio, Client("http://x").task("send_mail")):
        with pytest.raises(ConfigurationError) as caught:
            task.using(**{option: value})
        assert f"has no option '{option}'; write " in str(caught.value)
        assert line in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"write send_mail\.using\(delay=60\)\.submit"):
        send_mail.using(countdown=60)  # type: ignore[call-arg]


def test_an_unknown_option_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigurationError, match=r"has no option 'colour'$"):
        send_mail.using(colour="red")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"'id'; ids are assigned by the system$"):
        send_mail.using(id="mine")  # type: ignore[call-arg]


def test_no_synonym_hides_a_name_of_ours() -> None:
    assert not [name for name in METHODS if hasattr(type(send_mail), name)]
    assert not OPTIONS.keys() & UsingOptions.__annotations__.keys()

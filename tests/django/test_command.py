"""``manage.py fencepost``: the command line of Fencepost, for the project's app."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from django.core.management import CommandError, call_command
from tests.django import shop

from fencepost.cli.options import Settings
from fencepost.django.application import DjangoApp
from fencepost.django.framework import FRAMEWORK
from fencepost.django.management.commands.fencepost import (
    Command,
    child_program,
    without_django_options,
)


def test_a_command_is_for_the_store_of_the_project(
    any_project: DjangoApp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the environment, which may have a DATABASE_URL for other programs."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/elsewhere")
    result = shop.add.enqueue(1)
    call_command("fencepost", "jobs", "ls", "--json")
    listed = json.loads(capsys.readouterr().out)
    assert result.id in json.dumps(listed)
    call_command("fencepost", "worker", "--burst", "--concurrency", "2")
    result.refresh()
    assert result.return_value == 2
    assert any_project.jobs.count() == 1  # the app is open as before
    call_command("fencepost", "submit", "ship", '{"order": 7}')
    assert any_project.jobs.count(type="ship") == 1
    call_command("fencepost", "migrate")


def test_what_is_refused_is_an_error_of_django(project: DjangoApp) -> None:
    project.migrate()
    unknown = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(CommandError, match="no job"):
        call_command("fencepost", "jobs", "show", unknown)
    with pytest.raises(CommandError, match="No such command"):
        call_command("fencepost", "wroker")


@pytest.fixture
def as_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process look as if ``manage.py`` had been started, with options."""
    monkeypatch.setattr(sys, "argv", [__file__, "fencepost", "worker", "--processes", "2"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


def test_help_and_exit_codes_are_those_of_fencepost(
    project: DjangoApp, capsys: pytest.CaptureFixture[str], as_script: None
) -> None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "fencepost", "worker", "--help"])
    assert ended.value.code == 0
    assert "Usage: manage.py fencepost worker" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "fencepost", "--settings=x.y", "jobs", "--bad"])
    assert ended.value.code == 2


def test_a_worker_logs_each_attempt_once(project: DjangoApp, as_script: None) -> None:
    """Django logs the same about each task: that is left out, unless LOGGING asks for it."""
    logger = logging.getLogger(FRAMEWORK)
    before = logger.level
    try:
        for level, is_shown in ((logging.NOTSET, False), (logging.INFO, True)):
            logger.setLevel(level)
            with pytest.raises(SystemExit):
                Command().run_from_argv(["manage.py", "fencepost", "version"])
            assert logger.isEnabledFor(logging.ERROR) == is_shown
    finally:
        logger.setLevel(before)


def test_what_it_recommends_can_be_typed(project: DjangoApp) -> None:
    settings = Settings(app=project, words=("python", "manage.py", "fencepost"), url=project.url)
    assert settings.say("jobs", "ls") == "python manage.py fencepost jobs ls"
    settings.is_url_given = True
    assert "--url" in settings.say("jobs", "ls")


def test_options_of_django_are_left_out() -> None:
    words = ["--settings", "a.b", "worker", "--pythonpath=x", "--settings=c", "--queue", "mail"]
    assert without_django_options(words) == ["worker", "--queue", "mail"]


def test_a_child_process_is_started_as_this_one_was(as_script: None) -> None:
    assert child_program()[0] == sys.executable
    assert child_program()[-2:] == (__file__, "fencepost")

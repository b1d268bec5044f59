"""``manage.py fencepost …``: every command of ``fencepost``, for the project's app.

``worker``, ``dev``, ``migrate``, ``doctor``, ``jobs`` and the others are those of the command line,
with the same options. Django is set up and the tasks of all installed apps are imported before,
also in the processes that a command starts.
"""

from __future__ import annotations

import logging
import sys
from argparse import REMAINDER
from collections.abc import Sequence
from typing import Any

import click
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.autoreload import get_child_arguments

from fencepost.cli.main import cli
from fencepost.cli.options import Settings
from fencepost.django.project import find_tasks

NAME = "fencepost"
TYPED = ("python", "manage.py", NAME)
DJANGO_OPTIONS = ("--settings", "--pythonpath")
"""What Django has read already, and puts before every command; child processes inherit it."""
TASK_LOGGERS = ("django.tasks", "django_tasks")
ELSEWHERE = (sys.executable, "-m", "django", NAME)
"""How to start it from a process that is not ``manage.py``, such as a server of the project."""


class Command(BaseCommand):  # type: ignore[misc]  # Django declares no types
    """Passes its arguments to the command line of Fencepost."""

    help = "Run jobs, and look after them: all the commands of `fencepost`."
    requires_system_checks: Sequence[str] = ()  # a doctor must also come to the sick
    suppressed_base_arguments = frozenset(("--version", "--verbosity"))

    def run_from_argv(self, argv: list[str]) -> None:
        """Run it as typed: options, help and exit codes are those of ``fencepost``."""
        settings = Settings(
            app=find_tasks(), words=("python", argv[0], NAME), program=child_program()
        )
        log_each_attempt_once()
        words = without_django_options(argv[2:])
        sys.exit(cli.main(words, prog_name=f"{argv[0]} {NAME}", obj=settings))

    def add_arguments(self, parser: CommandParser) -> None:
        """Accept anything: ``call_command("fencepost", "jobs", "ls")``."""
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *args: Any, words: list[str], **options: Any) -> None:
        """Run it for ``call_command``, which gets an exception instead of an exit code."""
        settings = Settings(app=find_tasks(), words=TYPED, program=ELSEWHERE)
        try:
            status = cli.main(words, prog_name=NAME, obj=settings, standalone_mode=False)
        except Exception as error:
            text = error.format_message() if isinstance(error, click.ClickException) else str(error)
            raise CommandError(text) from error
        if status:
            raise CommandError(f"`{' '.join([NAME, *words])}` failed", returncode=status)


def log_each_attempt_once() -> None:
    """Silence what Django logs about tasks, as Fencepost does, unless LOGGING names its logger."""
    for name in TASK_LOGGERS:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET and not logger.handlers:
            logger.setLevel(logging.CRITICAL)


def child_program() -> tuple[str, ...]:
    """Return how ``manage.py`` was started, for another process with other arguments."""
    typed = get_child_arguments()
    return (*typed[: len(typed) - len(sys.argv[1:])], NAME)


def without_django_options(words: Sequence[str]) -> list[str]:
    """Return *words* without those options of Django that may come with any command."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in DJANGO_OPTIONS:
            next(rest, None)
        elif not word.startswith(tuple(f"{option}=" for option in DJANGO_OPTIONS)):
            kept.append(word)
    return kept

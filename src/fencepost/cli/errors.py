"""An error as one line with its code, and the command to run next."""

from __future__ import annotations

from typing import IO, Any

import click

from fencepost.cli.options import Settings
from fencepost.cli.output import clean
from fencepost.errors import (
    CronNotFoundError,
    DuplicateJobError,
    FencepostError,
    ForeignFileError,
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    ReplayNotFoundError,
    SchemaError,
    StateConflictError,
    StoreUnavailableError,
    TokenNotFoundError,
    UnknownOutcomeError,
    UnknownTypeError,
    WaitTimeoutError,
)


class Refusal(click.ClickException):
    """Something was refused or failed: exit code 1."""

    exit_code = 1

    def __init__(self, message: str, code: str, next_step: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.next_step = next_step

    def show(self, file: IO[Any] | None = None) -> None:
        lines = [f"error: {self.message} ({self.code})"]
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        for line in lines:
            click.echo(clean(line), file=file, err=file is None)


def refusal(error: Exception, settings: Settings) -> Refusal:
    """Return *error* as it is shown on the terminal."""
    if isinstance(error, FencepostError):
        return Refusal(_one_line(error), error.code, helpful(error, settings))
    if isinstance(error, OSError):
        return Refusal(_one_line(error), "os_error", settings.say("doctor"))
    text = f"unexpected {type(error).__name__}: {_one_line(error)}"
    return Refusal(text, "internal", "repeat it as `fencepost --debug …` to see the traceback")


def _one_line(error: Exception) -> str:
    return clean(" ".join(str(error).split()))


def helpful(error: FencepostError, settings: Settings) -> str | None:
    """Return the command that helps after *error*, if there is one."""
    match error:
        case DuplicateJobError(existing_id=str(existing_id)):
            return settings.say("jobs", "show", existing_id)
        case CronNotFoundError():
            return settings.say("cron", "ls")
        case TokenNotFoundError():
            return settings.say("tokens", "ls")
        case ReplayNotFoundError():
            return settings.say("dlq", "replays")
        case JobNotFoundError():
            return settings.say("jobs", "ls")
        case JobFailedError() | JobCancelledError():
            return settings.say("jobs", "show", error.job_id)
        case WaitTimeoutError():
            return settings.say("jobs", "why", error.job_id)
        case StateConflictError() if error.job_id:
            return settings.say("jobs", "show", error.job_id)
        case UnknownTypeError():
            return "if only its worker knows the type, add --raw to store it unchecked"
        case ForeignFileError():
            return "name another file with --url or FENCEPOST_URL"
        case SchemaError():
            return settings.say("migrate", "--plan")
        case UnknownOutcomeError():
            return "repeat it with the same --key to see what happened"
        case StoreUnavailableError():
            return settings.say("doctor")
        case _:
            return None

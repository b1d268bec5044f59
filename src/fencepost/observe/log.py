"""Log events on the standard library's logging: a name, fields, and a text that stands alone.

The text names everything that a reader needs, so that it serves with the formatters of a user's own
set-up, too; the fields are for machines. Payloads and results are never logged (S1-95).
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

from fencepost.core.display import printable, printable_json

logger = logging.getLogger("fencepost")
jobs_logger = logging.getLogger("fencepost.jobs")
"""How attempts end: the lines of which there are most."""

EVENT = "fencepost_event"
FIELDS = "fencepost_fields"
RESERVED = frozenset({"at", "level", "event", "logger"})
"""Every line has these, so that no field may have their names."""
PACKAGE = str(Path(__file__).parents[1])
"""Where our own code lies: a traceback without it begins with the user's."""
OUTSIDE = "-"
"""What JobLogFilter says outside of a handler."""


class LoggedJob(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...


class RunningJob(LoggedJob, Protocol):
    @property
    def queue(self) -> str: ...
    @property
    def attempt(self) -> int: ...


current_job: ContextVar[RunningJob | None] = ContextVar("fencepost_job", default=None)
"""The job whose handler runs here."""


class _Text:
    """The text of an event, written only if a handler asks for it."""

    __slots__ = ("_event", "_fields", "_message")

    def __init__(self, event: str, message: str | None, fields: dict[str, Any]) -> None:
        self._event = event
        self._message = message
        self._fields = fields

    def __str__(self) -> str:
        if self._message is not None:
            return self._message
        return self._event + _shown_fields(self._fields)


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Write one event with its fields, if this level is enabled; None is left out."""
    if logger.isEnabledFor(level):
        write(event, known(fields), level=level)


def write(
    event: str,
    fields: dict[str, Any],
    *,
    level: int,
    text: str | None = None,
    raised: BaseException | None = None,
    to: logging.Logger = logger,
) -> None:
    """Write one event, if this level is enabled.

    *text* is a sentence that says the same as event and fields; *raised* is logged with its
    traceback.
    """
    if to.isEnabledFor(level):
        extra = {EVENT: event, FIELDS: fields}
        to.log(level, _Text(event, text, fields), exc_info=raised, extra=extra)


def known(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def log_job(event: str, job: LoggedJob, *, level: int = logging.INFO, **fields: Any) -> None:
    """Write one event about a job, with its id and type."""
    log(event, level=level, id=job.id, type=job.type, **fields)


class JobLogFilter(logging.Filter):
    """Adds the running job to every record of a handler: for your own formatters.

    ``job_id``, ``job_type``, ``job_queue`` and ``job_attempt``; outside of a handler, each is "-".
    """

    def filter(self, record: logging.LogRecord) -> bool:
        job = current_job.get()
        record.job_id = OUTSIDE if job is None else job.id
        record.job_type = OUTSIDE if job is None else job.type
        record.job_queue = OUTSIDE if job is None else job.queue
        record.job_attempt = OUTSIDE if job is None else job.attempt
        return True


def _job_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record; one that was logged inside a handler has those of its job."""
    fields = getattr(record, FIELDS, None)
    if fields is not None:
        return dict(fields)
    job = current_job.get()
    return {} if job is None else {"id": job.id, "type": job.type, "attempt": job.attempt}


COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


class ConsoleFormatter(logging.Formatter):
    """``09:15:01.234 WARNING send_mail 019… failed on attempt 1 of 3 …``.

    The further lines of a message and those of a traceback are indented: what a handler logs or
    raises cannot look like an event.
    """

    def __init__(self, *, is_coloured: bool = False) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        first, *rest = _lines(record.getMessage())
        if not hasattr(record, EVENT):
            name = "" if record.name == "root" else f"{printable(record.name)}: "
            first = f"{name}{first}{self._dimmed(_shown_fields(_job_fields(record)))}"
        if record.exc_info:
            rest += _lines(self.formatException(record.exc_info))
        elif record.exc_text:
            rest += _lines(record.exc_text)
        time = self._dimmed(f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}")
        level = self._painted(COLOURS.get(record.levelname, "0"), f"{record.levelname:<7}")
        return "\n  ".join([f"{time} {level} {first}", *rest])

    def _dimmed(self, text: str) -> str:
        return self._painted("2", text)

    def _painted(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured and text else text


class JsonFormatter(logging.Formatter):
    """One JSON object a line: also for the lines of other loggers."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        entry = {"at": at.isoformat(), "level": record.levelname.lower()}
        event = getattr(record, EVENT, None)
        if event is None:
            entry |= {"logger": record.name, "message": record.getMessage()}
        else:
            entry["event"] = event
        entry |= _job_fields(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            entry["exception"] = record.exc_text
        return printable_json(json.dumps(entry, default=str))


def _lines(text: str) -> list[str]:
    return [printable(line) for line in text.split("\n")]


def _shown_fields(fields: dict[str, Any]) -> str:
    return "".join(f" {name}={_show(value)}" for name, value in fields.items())


def _show(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    is_plain = text.isprintable() and not set(text) & {" ", '"'}
    return text if text and is_plain else printable_json(json.dumps(text))


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes to standard error as text or JSON; knows how it was made, for child processes."""

    def __init__(self, level: str, style: str) -> None:
        super().__init__(sys.stderr)
        self.settings = (level, style)
        text = ConsoleFormatter(is_coloured=is_terminal(sys.stderr))
        self.setFormatter(JsonFormatter() if style == "json" else text)


def is_terminal(stream: TextIO) -> bool:
    """Return whether *stream* shows colours: a terminal, unless the environment says otherwise."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def configure(*, level: str = "INFO", style: str = "text", replaces: bool = True) -> None:
    """Show the events, and the lines of all other loggers, on standard error.

    Unless *replaces*, a program that has set up logging itself keeps what it has: events then go
    there, too.
    """
    root = logging.getLogger()
    logger.disabled = jobs_logger.disabled = False  # as ``dictConfig`` leaves them by default
    logger.setLevel(level.upper())
    if root.handlers and not replaces:
        return
    root.handlers[:] = [LogHandler(level, style)]
    root.setLevel(level.upper())


def configured() -> tuple[str, str] | None:
    """Return the level and style that ``configure`` has set, for a child process."""
    handlers = logging.getLogger().handlers
    return next((each.settings for each in handlers if isinstance(each, LogHandler)), None)

"""Structured log events on the standard library's logging: a name and fields, never prose.

Payloads and results are never logged (S1-95).
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from fencepost.core.display import printable, printable_json

logger = logging.getLogger("fencepost")

FIELDS = "fencepost_fields"
RESERVED = frozenset({"at", "level", "event"})
"""What every line says, so that no field may be called so."""


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Write one event with its fields, if anybody listens at this level."""
    if logger.isEnabledFor(level):
        logger.log(level, event, extra={FIELDS: fields})


class ConsoleFormatter(logging.Formatter):
    """``09:15:01.234 INFO job.settled id=… state=completed``.

    The lines of a traceback are indented: what a handler raised cannot look like an event.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        fields = getattr(record, FIELDS, {})
        shown = "".join(f" {name}={_show(value)}" for name, value in fields.items())
        text = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} {record.levelname:<7} "
        text += f"{record.getMessage()}{shown}"
        if record.exc_info:
            lines = self.formatException(record.exc_info).split("\n")
            text += "".join(f"\n  {printable(line)}" for line in lines)
        return text


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        entry = {
            "at": at.isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(entry, default=str))


def _show(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    is_plain = text.isprintable() and not set(text) & {" ", '"'}
    return text if text and is_plain else printable_json(json.dumps(text))


def configure(*, level: str = "INFO", as_json: bool = False) -> None:
    """Send events to standard error; for programs that have no logging of their own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else ConsoleFormatter())
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False

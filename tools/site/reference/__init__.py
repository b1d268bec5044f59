"""The pages that are made from the code, by their place in the site."""

from __future__ import annotations

from collections.abc import Callable

from tools.site.reference.command_line import command_line_page
from tools.site.reference.http_api import http_page
from tools.site.reference.measurements import log_events_page, metrics_page
from tools.site.reference.python_api import (
    app_page,
    errors_page,
    handler_page,
    testing_page,
    values_page,
)

REFERENCE: dict[str, Callable[[], str]] = {
    "reference/app.md": app_page,
    "reference/handlers.md": handler_page,
    "reference/values.md": values_page,
    "reference/errors.md": errors_page,
    "reference/testing.md": testing_page,
    "reference/command-line.md": command_line_page,
    "reference/http-api.md": http_page,
    "reference/metrics.md": metrics_page,
    "reference/log-events.md": log_events_page,
}

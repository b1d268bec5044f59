"""``App(tracing=…)`` and ``FENCEPOST_TRACING``: whether an app makes OpenTelemetry spans."""

from __future__ import annotations

import os
from typing import Any, Literal

from fencepost.actions.session import Session
from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

VARIABLE = "FENCEPOST_TRACING"
OFF = ("", "0", "false", "off")
LINK = ("1", "true", "on", "link")
PARENT = "parent"

TracingMode = Literal["link", "parent"]
"""An attempt's span links to that of its submission, or is its child."""


def open_session(given: bool | TracingMode | None, url: str, **settings: Any) -> Session:
    """Return an app's session; one without traces, which is the default, imports nothing."""
    text = os.environ.get(VARIABLE, "") if given is None else str(given)
    mode = text.strip().lower()
    if mode in OFF:
        return Session(url, **settings)
    if mode not in (*LINK, PARENT):
        raise ConfigurationError(
            f"tracing is True, False, 'link' or 'parent' ({VARIABLE}: 1, 0, link, parent), "
            f"got {shown(text)}"
        )
    try:
        from fencepost.actions.traced_session import TracedSession
        from fencepost.observe.tracing import Tracing
    except ImportError as error:
        raise ConfigurationError(
            "tracing needs OpenTelemetry; pip install 'fencepost[otel]'"
        ) from error
    return TracedSession(url, tracing=Tracing(is_parent=mode == PARENT), **settings)

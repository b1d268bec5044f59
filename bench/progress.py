"""One line on standard error that says what is being measured."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.status import Status


class StatusLine:
    """A spinner on a terminal; nothing where nobody watches."""

    def __init__(self) -> None:
        self._status: Status | None = None
        if sys.stderr.isatty():
            self._status = Status("starting", console=Console(stderr=True))

    def step(self, what: str) -> None:
        if self._status is not None:
            self._status.update(what)

    def __enter__(self) -> StatusLine:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

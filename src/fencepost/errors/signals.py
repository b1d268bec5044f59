"""What a handler raises for its worker, and what the worker raises in a handler.

Any other exception of a handler counts as a temporary failure.
"""

from __future__ import annotations

from datetime import timedelta

Duration = float | int | str | timedelta
"""Seconds, a timedelta, or text such as "90s"; read by ``core/values/times.py``."""


class HandlerSignal(Exception):
    """What a handler raises to say how its failure is treated."""


class TemporaryError(HandlerSignal):
    """This attempt failed, the next may succeed: a timeout, a 503, a rate limit, a deadlock."""

    def __init__(
        self,
        message: str = "temporary failure",
        cause: BaseException | None = None,
        retry_after: Duration | None = None,
    ) -> None:
        super().__init__(message)
        self.__cause__ = cause
        self.retry_after = retry_after


class PermanentError(HandlerSignal):
    """Every attempt would fail like this one: invalid input, a missing entity, a broken rule."""

    def __init__(
        self,
        message: str = "permanent failure",
        cause: BaseException | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.__cause__ = cause
        self.code = code


class Snooze(HandlerSignal):
    """Call the handler again after *delay*; the attempt is not counted."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"snooze for {delay}")
        self.delay = delay


class HandlerStopped(BaseException):
    """Raised in a ``def`` handler that its worker stops, wherever it is.

    It is no Exception, so that ``except Exception`` lets it pass; ``finally`` and ``with`` clean up
    as usual. A handler that catches it has a few seconds until the worker gives up its thread.
    """

    def __init__(self, message: str = "stopped by the worker; ctx.cancel_reason says why") -> None:
        super().__init__(message)

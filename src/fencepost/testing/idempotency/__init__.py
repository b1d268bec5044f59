"""Is a handler idempotent? Crash it wherever it can crash, run it again, and count its effects."""

from fencepost.testing.idempotency.check import NotIdempotentError, check_idempotent
from fencepost.testing.idempotency.effects import effect
from fencepost.testing.idempotency.report import Flaw, Report
from fencepost.testing.idempotency.trail import Point

__all__ = ["Flaw", "NotIdempotentError", "Point", "Report", "check_idempotent", "effect"]

"""Is a handler idempotent? Crash it at every possible point, run it again, count its effects."""

from fencepost.testing.idempotency.check import Flaw, NotIdempotentError, Report, check_idempotent
from fencepost.testing.idempotency.effects import effect
from fencepost.testing.idempotency.trail import Point

__all__ = ["Flaw", "NotIdempotentError", "Point", "Report", "check_idempotent", "effect"]

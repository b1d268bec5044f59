"""Version skew: a payload that the running code cannot read, and that another version may (C47).

While a deployment rolls, callers of the new version submit what workers of the old one do not
understand: an argument more, a model renamed. Such a job is given back, uncounted, for a bounded
time. How often and since when that went on is told from the attempts that a store keeps anyway,
so that no restart begins the time anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from fencepost.core.job.job import Attempt, AttemptOutcome, Body, Encoding
from fencepost.core.job.outcome import Unreadable
from fencepost.core.values.payload import decode
from fencepost.core.values.signature import Signature
from fencepost.errors import InvalidPayloadError

PASSED_OVER = frozenset({AttemptOutcome.RUNNING, AttemptOutcome.RELEASED})
"""Attempts that say nothing: of the one that goes on, and of those that were given back unrun."""


class UnreadPayload(Exception):
    """The arguments of a handler could not be read from its job's payload; it was not called."""

    def __init__(self, error: InvalidPayloadError) -> None:
        super().__init__(str(error))
        self.error = error


def read_arguments(signature: Signature, payload: Body) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a handler, or raise UnreadPayload if another version may know better.

    Raises InvalidPayloadError for what no version can read.
    """
    try:
        return signature.decode(payload)
    except InvalidPayloadError as error:
        if payload.encoding is Encoding.JSON:
            decode(payload)  # what is not even JSON is damaged, and fails at once
        raise UnreadPayload(error) from None


def with_past(outcome: Unreadable, attempts: Sequence[Attempt] | None) -> Unreadable:
    """Return *outcome* with what the *attempts* of its job, oldest first, say of earlier ones.

    An attempt in which the payload was read, or that failed for good, ends the count. None, as
    of a job that is gone, says nothing.
    """
    attempts = attempts or ()
    returns = 0
    since = None
    for attempt in reversed(attempts):
        if attempt.outcome in PASSED_OVER:
            continue
        if attempt.outcome is not AttemptOutcome.UNREADABLE:
            break
        returns += 1
        since = attempt.ended_at
    if since is None:
        return outcome
    # By the store's clock on both sides: this attempt has begun just now.
    waited = (attempts[-1].started_at - since).total_seconds()
    return replace(outcome, returns=returns, waited=max(waited, 0.0))

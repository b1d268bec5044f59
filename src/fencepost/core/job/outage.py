"""Dead letters that an outage explains: every attempt failed while some service was away.

``fencepost doctor`` recommends ``Retry.patient()`` for them. The rule goes by the name of the
exception's class, which is all that a store keeps of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.job.job import Attempt, Category, Failure

LETTERS_LOOKED_AT = 50
"""The newest dead letters, which are searched for an outage."""
AGE_MAX = 86_400.0
"""Seconds. Older dead letters say nothing about the present settings."""
SPAN_MAX = 30.0
"""Seconds from the first attempt to the last, in which an outage seldom ends."""

WORDS = ("connect", "timeout", "unavailable")
"""Parts of class names, in lower case: ConnectionError, ReadTimeout, ServiceUnavailable, …"""
NAMES = frozenset(
    [
        "BrokenPipeError",
        "InterfaceError",
        "MaxRetryError",
        "OperationalError",
        "URLError",
        "gaierror",
    ]
)
"""Class names of the standard library, of database drivers (DB-API) and of urllib3."""


def is_outage(failure: Failure) -> bool:
    """Return whether the handler raised an error about a connection, by the name of its class."""
    if failure.category is not Category.TEMPORARY or failure.exception is None:
        return False
    name = failure.exception.rpartition(".")[2]
    return name in NAMES or any(word in name.lower() for word in WORDS)


def is_brief(attempts: Sequence[Attempt] | None) -> bool:
    """Return whether there were several attempts, all of them within a few seconds."""
    if attempts is None or len(attempts) < 2:
        return False  # Retry.none() is a choice
    first, last = attempts[0], attempts[-1]
    ended_at = last.ended_at or last.started_at
    return (ended_at - first.started_at).total_seconds() <= SPAN_MAX

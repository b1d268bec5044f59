"""The failures that a store records by itself: they say nothing of a job's content.

No store has keys, so these are stored as they are, also where plain content is refused. They are
told by their text: one that says anything else was not written by a store.
"""

from __future__ import annotations

import re

from fencepost.core.job.job import Category, Failure
from fencepost.core.job.outcome import LEASE_EXPIRED
from fencepost.store.sql.texts import UNREADABLE

_FIXED = (
    LEASE_EXPIRED.failure,
    UNREADABLE,
    Failure(Category.CANCELLED, "cancelled", code="cancelled"),
    Failure(Category.TIMEOUT, "lifetime exceeded", code="lifetime_exceeded"),
    Failure(Category.PERMANENT, "the stored job cannot be read", code="corrupt"),
)
_MESSAGES = {
    "execution_timeout": re.compile(r"ran longer than its timeout of [0-9.e+]{1,20} s", re.ASCII),
    "dependency_failed": re.compile(
        r"it waited for job [0-9a-f-]{36}, which ended as (failed|dead_letter|cancelled)", re.ASCII
    ),
}


def is_stores_own(failure: Failure) -> bool:
    """Tell whether *failure* is one that a store records by itself."""
    if failure in _FIXED:
        return True
    form = _MESSAGES.get(failure.code or "")
    if form is None or failure.exception is not None or failure.traceback is not None:
        return False
    return form.fullmatch(failure.message) is not None

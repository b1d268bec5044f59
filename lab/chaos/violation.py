"""What a rule of the checker finds."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True):
    """A promise that was not kept."""

    rule: str
    subject: str
    """The job, key or process."""
    detail: str

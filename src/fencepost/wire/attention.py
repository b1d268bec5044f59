"""What needs attention, and dead letters in groups of the same failure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.attention import Item
from fencepost.core.fingerprints import Group
from fencepost.wire.terms import QueueName, Strict, TypeName


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """What needs somebody, worst first; nothing means that all is well."""

    at: datetime
    items: list[Item]


class LetterConditions(Strict, frozen=True, kw_only=True):
    """Which dead letters; all conditions must be met."""

    type: TypeName | None = None
    queue: QueueName | None = None
    since: datetime | None = None
    """Dead at this time or later."""
    until: datetime | None = None
    """Dead earlier than this."""


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of dead letters: those that rise first, then the most recent."""

    at: datetime
    is_complete: bool
    """False if there are more than 10,000 dead letters, of which the newest were grouped."""
    groups: list[Group]

"""What needs attention, and dead letters in groups of the same failure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from fencepost.core.fingerprints import Group
from fencepost.core.stats.attention import Item


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """What a person should look at, worst first; an empty list means that all is well."""

    at: datetime
    items: list[Item]


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of dead letters: those that rise first, then the most recent."""

    at: datetime
    is_complete: bool
    """False if there are more than 10,000 dead letters, of which the newest were grouped."""
    groups: list[Group]

"""The audit log on the wire."""

from __future__ import annotations

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.wire.terms import Cursor, PageLimit


class ActionQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """From where on."""

    after: Cursor | None = None
    """The ``next`` of the page before."""
    limit: PageLimit = PAGE_DEFAULT


class ActionPage(msgspec.Struct, frozen=True, kw_only=True):
    """What operators did, newest first, and where the next page begins."""

    actions: list[Action]
    next: str | None

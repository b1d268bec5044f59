"""Dead letters on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.job.job import DeadLetter
from fencepost.wire.terms import Cursor, PageLimit, TypeName


class DeadLetterQuery(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Of one type or of all, and from where on."""

    type: TypeName | None = None
    after: Cursor | None = None
    """The ``next`` of the page before."""
    limit: PageLimit = PAGE_DEFAULT


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, the most recent first, and where the next page begins."""

    dead_letters: list[DeadLetter]
    next: str | None


class ReplayAll(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Which dead letters to replay; at most ``limit`` of them."""

    type: TypeName | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None


class Replayed(msgspec.Struct, frozen=True):
    """How many dead letters were replayed."""

    count: int

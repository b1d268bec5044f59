"""The audit log: what was done, when, and with which token."""

from __future__ import annotations

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.filter import PageRequest
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class ActionPage(msgspec.Struct, frozen=True):
    """Some of the audit log, newest first, and the position of the last; None when that is all."""

    actions: list[Action]
    next: int | None = None


class AuditFacet(Facet, abstract=True):
    """The audit log: what was done, when, and with which token."""

    @operation(Effect.WRITE, has_content=False, name="record_action")
    def record(self, action: Action) -> Operation[None]:
        """Append to the audit log, at the store's time; one whose id is there is left alone."""

    @operation(Effect.WRITE, has_content=False, name="prune_actions")
    def prune(self, keep: float, limit: int) -> Operation[int]:
        """Delete what was recorded *keep* seconds ago or longer, at most *limit*; count it.

        The oldest first.
        """

    @operation(Effect.READ, has_content=False, name="actions")
    def list(self, page: PageRequest) -> Operation[ActionPage]:
        """Return a page of the audit log, newest first."""

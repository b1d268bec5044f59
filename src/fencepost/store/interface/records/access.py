"""Access to the HTTP API: tokens, of which hashes are kept, and the audit log."""

from __future__ import annotations

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.access.sessions import SessionRecord
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.filter import PageRequest
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation


class AccessFacet(Facet, abstract=True):
    """Tokens of the HTTP API, of which hashes are kept."""

    @operation(Effect.READ, has_content=False)
    def tokens(self) -> Operation[list[TokenRecord]]:
        """Return all tokens, the oldest first, those too that were revoked or have expired."""

    @operation(Effect.WRITE, has_content=False, name="add_token")
    def add(self, record: TokenRecord) -> Operation[None]:
        """Keep a token; one that is there already, all the same, is left alone.

        Forgets those that ended TOKEN_KEPT ago. Raises StateConflictError if another token has its
        id, and ConfigurationError if there are TOKENS_MAX.
        """

    @operation(Effect.WRITE, has_content=False, name="revoke_token")
    def revoke(self, token_id: str) -> Operation[bool]:
        """Make a token good for nothing from now on; False if there is none.

        One that was revoked before stays revoked since then.
        """

    @operation(Effect.READ, has_content=False)
    def sessions(self) -> Operation[list[SessionRecord]]:
        """Return all sessions of browsers, the oldest first; some may have expired."""

    @operation(Effect.WRITE, has_content=False)
    def open_session(self, record: SessionRecord) -> Operation[None]:
        """Keep a session; one that is there already is left alone.

        Forgets those that have expired, and of too many the oldest: SESSIONS_OF_TOKEN_MAX of its
        token, and SESSIONS_MAX in all.
        """

    @operation(Effect.WRITE, has_content=False)
    def close_session(self, session_id: str) -> Operation[None]:
        """Forget a session, if it is there."""


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

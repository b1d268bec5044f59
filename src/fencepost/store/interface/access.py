"""Tokens of the HTTP API, of which hashes are kept."""

from __future__ import annotations

from fencepost.core.access.tokens import TokenRecord
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

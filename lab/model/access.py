"""Tokens, and the log of what was done with them."""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.core.access.audit import Action
from fencepost.core.access.bounds import TOKEN_KEPT, TOKENS_MAX
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.filter import PageRequest
from fencepost.errors import ConfigurationError, StateConflictError
from fencepost.store.interface.records.access import ActionPage
from lab.model.changes import Changing
from lab.model.rules import has_come, seconds
from lab.model.world import Logged


class Guarding(Changing):
    """Who may come in, and who did what."""

    def add_token(self, record: TokenRecord) -> None:
        kept = {id: each for id, each in self.world.tokens.items() if not self._is_past(each)}
        known = kept.setdefault(record.id, record)
        if known.digest != record.digest:
            raise StateConflictError("another token has this id")
        if len(kept) > TOKENS_MAX:
            raise ConfigurationError("there are too many tokens")
        self.world.tokens = kept

    def _is_past(self, token: TokenRecord) -> bool:
        """Tell whether it was of no use for so long that nobody asks for it any more."""
        ends = [at for at in (token.expires_at, token.revoked_at) if at is not None]
        return any(has_come(at + seconds(TOKEN_KEPT), self.now) for at in ends)

    def tokens(self) -> list[TokenRecord]:
        return sorted(self.world.tokens.values(), key=lambda token: (token.created_at, token.id))

    def revoke_token(self, token_id: str) -> bool:
        token = self.world.tokens.get(token_id)
        if token is not None and token.revoked_at is None:
            self.world.tokens[token_id] = replace(token, revoked_at=self.now)
        return token is not None

    def record_action(self, action: Action) -> None:
        if action.id not in self.world.actions:
            self.world.recorded += 1
            self.world.actions[action.id] = Logged(
                self.world.recorded, self.now, replace(action, at=self.now)
            )

    def actions(self, page: PageRequest) -> ActionPage:
        found = [
            logged
            for logged in reversed(self.world.actions.values())
            if page.after is None or logged.number < page.after
        ]
        shown, rest = found[: page.limit], found[page.limit :]
        return ActionPage([logged.action for logged in shown], shown[-1].number if rest else None)

    def prune_actions(self, keep: float, limit: int) -> int:
        logged = sorted(self.world.actions.values(), key=lambda logged: (logged.at, logged.number))
        old = [each for each in logged if has_come(each.at + seconds(keep), self.now)][:limit]
        for each in old:
            del self.world.actions[each.action.id]
        return len(old)

"""Rules for what servers keep and ask: tokens, the audit log, and what has ended."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.testing.clock import START
from lab.model import choices
from lab.model.choices import INSTANT
from lab.model.cron_rules import Ticking


class Inspecting(Ticking):
    """What happens to tokens and to the log, and who looks at the ends of jobs."""

    @rule(
        token=choices.tokens,
        created=st.sampled_from((0.0, 0.0, -1.0)),
        expires=choices.token_ends,
        revoked=choices.token_ends,
    )
    def add_token(
        self, token: dict[str, Any], created: float, expires: float | None, revoked: float | None
    ) -> None:
        record = TokenRecord(
            created_at=self._from_now(created),
            expires_at=self._tick(expires),
            revoked_at=self._tick(revoked),
            **token,
        )
        self.do("add_token", record)

    @rule(token_id=st.one_of(choices.token_ids, choices.strange_token_ids))
    def revoke_token(self, token_id: str) -> None:
        self.do("revoke_token", token_id)

    @rule(action=choices.actions)
    def record_action(self, action: Action) -> None:
        self.do("record_action", action)

    @rule(limit=st.sampled_from((1, 2, 1000)))
    def look_at_actions(self, limit: int) -> None:
        self.do("actions", limit)
        self.do("tokens")

    @rule(keep=st.sampled_from((0.0, 1.0, 60.0)), limit=choices.limits)
    def prune_actions(self, keep: float, limit: int) -> None:
        self.do("prune_actions", keep, limit)

    @rule(
        number=choices.jobs,
        offset=choices.offsets,
        limit=st.sampled_from((1, 2, 1000)),
        newest_first=st.booleans(),
    )
    def look_at_ends(self, number: int, offset: int, limit: int, newest_first: bool) -> None:
        """Ask for what has ended since a job did, or just beside that."""
        ends = [job.completed_at for job in reversed(self._jobs()) if job.completed_at is not None]
        since = ends[number % len(ends)] if ends else START
        self.do("ended", since + offset * INSTANT, limit, newest_first)

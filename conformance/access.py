"""Tokens and the audit log: what is kept, what is revoked, and what is pruned."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from conformance.harness import INSTANT, Harness
from fencepost.core.access.audit import Action, make_action
from fencepost.core.access.bounds import (
    SESSION_SECONDS,
    SESSIONS_MAX,
    SESSIONS_OF_TOKEN_MAX,
    TOKEN_KEPT,
    TOKENS_MAX,
)
from fencepost.core.access.sessions import NewSession, SessionRecord, make_session, verify_session
from fencepost.core.access.tokens import (
    NewToken,
    Principal,
    Role,
    TokenOptions,
    TokenRecord,
    make_token,
    verify,
)
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.filter import PageRequest
from fencepost.core.values.names import id_text
from fencepost.errors import ConfigurationError, StateConflictError

__all__ = ["TestAuditLog", "TestSessions", "TestTokens"]

ALICE = Principal(token_id="0123456789ab", name="alice", roles=frozenset({Role.OPERATE}))
KEPT = timedelta(seconds=TOKEN_KEPT)


def new_token(h: Harness, name: str = "ci", **options: Any) -> NewToken:
    roles = options.pop("roles", (Role.SUBMIT,))
    asked = TokenOptions(name=name, roles=roles, **options)
    return make_token(asked, h.clock.new_bytes(30), h.now)


def add(h: Harness, name: str = "ci", **options: Any) -> NewToken:
    token = new_token(h, name, **options)
    h.run(h.store.access.add(token.record))
    return token


def tokens(h: Harness) -> list[TokenRecord]:
    return h.run(h.store.access.tokens())


def revoke(h: Harness, token: NewToken) -> bool:
    return h.run(h.store.access.revoke(token.record.id))


def record(h: Harness, action: str = "job.cancel", **fields: Any) -> Action:
    made = make_action(ALICE, action, id=id_text(h.clock.new_id()), **fields)
    ended = msgspec.structs.replace(made, status=200)
    h.run(h.store.audit.record(ended))
    return msgspec.structs.replace(ended, at=h.now)


def recorded(h: Harness) -> list[Action]:
    return h.run(h.store.audit.list(PageRequest(PAGE_MAX))).actions


class TestTokens:
    def test_a_token_is_kept_as_it_was_made(self, h: Harness) -> None:
        """Every field, and nothing from which the token could be made again."""
        plain = add(h)
        h.advance(1.0)
        scoped = add(
            h,
            "deploy é 'x'; drop table tokens",
            roles=(Role.READ, Role.OPERATE),
            queues=("bulk", "mail"),
            rate=0.5,
            expires=3600.0,
        )
        assert tokens(h) == [plain.record, scoped.record]
        found = tokens(h)[1]
        assert verify(scoped.text, found, h.now)
        assert not verify(plain.text, found, h.now)
        assert found.expires_at == h.now + timedelta(hours=1)

    def test_to_add_a_token_again_changes_nothing(self, h: Harness) -> None:
        """After an unknown outcome one asks again, and meanwhile it may have been revoked."""
        token = add(h)
        assert revoke(h, token)
        before = tokens(h)
        h.run(h.store.access.add(token.record))
        assert tokens(h) == before

    def test_an_id_that_another_token_has_is_refused(self, h: Harness) -> None:
        token = add(h)
        other = msgspec.structs.replace(new_token(h).record, id=token.record.id)
        with pytest.raises(StateConflictError):
            h.run(h.store.access.add(other))
        assert tokens(h) == [token.record]

    def test_names_may_repeat(self, h: Harness) -> None:
        """The next token is there before the last one goes."""
        add(h)
        add(h)
        assert [each.name for each in tokens(h)] == ["ci", "ci"]

    def test_a_revoked_token_is_good_for_nothing_and_stays_on_the_list(self, h: Harness) -> None:
        """Revoked once, at the store's time, however often it is asked for."""
        token, other = add(h), add(h, "other")
        at = h.advance(5.0)
        assert revoke(h, token)
        h.advance(5.0)
        assert revoke(h, token)
        found = {each.id: each for each in tokens(h)}
        assert found[token.record.id].revoked_at == at
        assert not verify(token.text, found[token.record.id], h.now)
        assert verify(other.text, found[other.record.id], h.now)

    @pytest.mark.parametrize("token_id", ["0123456789ab", "", "ci", "x" * 10_000, "a\0b", "é'; --"])
    def test_to_revoke_what_is_no_token_is_told(self, h: Harness, token_id: str) -> None:
        token = add(h)
        assert h.run(h.store.access.revoke(token_id)) is False
        assert tokens(h) == [token.record]

    def test_what_ended_long_ago_is_forgotten_when_a_token_is_added(self, h: Harness) -> None:
        """Counted from when it ended; one that never ends is kept for ever."""
        forever = add(h, "forever")
        expiring = add(h, "expiring", expires=60.0)
        revoked = add(h, "revoked")
        h.advance(60.0)
        revoke(h, revoked)
        h.advance(KEPT - INSTANT)
        late = add(h, "late")
        assert {each.name for each in tokens(h)} == {"forever", "expiring", "revoked", "late"}
        h.advance(INSTANT)
        last = add(h, "last")
        assert tokens(h) == [forever.record, late.record, last.record]
        assert expiring.record not in tokens(h)

    @pytest.mark.parametrize("has", ["another digest", "the same digest", "nothing new"])
    def test_the_id_of_a_token_that_ended_long_ago_is_free(self, h: Harness, has: str) -> None:
        old = add(h, "old", expires=60.0)
        h.advance(KEPT + timedelta(seconds=60))
        fresh = msgspec.structs.replace(new_token(h, "fresh").record, id=old.record.id)
        if has == "the same digest":
            fresh = msgspec.structs.replace(fresh, digest=old.record.digest)
        if has == "nothing new":
            fresh = old.record
        h.run(h.store.access.add(fresh))
        assert tokens(h) == [fresh]

    @pytest.mark.fills
    def test_there_is_a_bound(self, h: Harness) -> None:
        """Servers read all tokens every few seconds."""
        for number in range(TOKENS_MAX):
            h.run(h.store.access.add(new_token(h, f"n{number}").record))
        before = tokens(h)
        with pytest.raises(ConfigurationError, match=r"token limit reached \(1,000\)"):
            add(h)
        assert tokens(h) == before
        h.run(h.store.access.add(before[0]))  # it is there: no room is needed

    def test_two_who_add_and_revoke_at_once_get_what_they_asked_for(self, h: Harness) -> None:
        token = new_token(h).record
        h.race([lambda store: store.access.add(token)] * 4, h.peers(2))
        assert tokens(h) == [token]
        revoked = h.race([lambda store: store.access.revoke(token.id)] * 4, h.peers(2))
        assert revoked == [True] * 4
        assert tokens(h)[0].revoked_at == h.now

    def test_tokens_survive_their_store_object(self, h: Harness) -> None:
        """S0-1: one that was revoked is not good again after a crash."""
        token = add(h)
        revoke(h, token)
        before = tokens(h)
        h.reopen(is_clean=False)
        assert tokens(h) == (before if h.is_durable else [])


def open_session(h: Harness, token: NewToken) -> NewSession:
    session = make_session(token.record, h.clock.new_bytes(30), h.now)
    h.run(h.store.access.open_session(session.record))
    return session


def sessions(h: Harness) -> list[SessionRecord]:
    return h.run(h.store.access.sessions())


class TestSessions:
    def test_a_session_is_kept_as_it_was_made_and_closed_once(self, h: Harness) -> None:
        """Nothing from which the cookie could be made again."""
        token = add(h)
        first = open_session(h, token)
        h.advance(1.0)
        second = open_session(h, token)
        assert sessions(h) == [first.record, second.record]
        assert verify_session(first.text, sessions(h)[0], h.now)
        assert not verify_session(second.text, sessions(h)[0], h.now)
        for _ in range(2):
            h.run(h.store.access.close_session(first.record.id))
        assert sessions(h) == [second.record]

    @pytest.mark.parametrize("session_id", ["0123456789ab", "", "x" * 10_000, "a\0b", "é'; --"])
    def test_to_close_what_is_no_session_changes_nothing(self, h: Harness, session_id: str) -> None:
        session = open_session(h, add(h))
        h.run(h.store.access.close_session(session_id))
        assert sessions(h) == [session.record]

    def test_to_open_a_session_again_changes_nothing(self, h: Harness) -> None:
        """After an unknown outcome one asks again."""
        session = open_session(h, add(h))
        h.run(h.store.access.open_session(session.record))
        assert sessions(h) == [session.record]

    def test_the_next_session_forgets_those_that_have_expired(self, h: Harness) -> None:
        token = add(h)
        open_session(h, token)
        h.advance(SESSION_SECONDS)
        fresh = open_session(h, token)
        assert sessions(h) == [fresh.record]

    def test_a_token_has_so_many_sessions_and_the_oldest_makes_room(self, h: Harness) -> None:
        other = open_session(h, add(h, "other"))
        token = add(h)
        opened = []
        for _ in range(SESSIONS_OF_TOKEN_MAX + 2):
            h.advance(1.0)
            opened.append(open_session(h, token).record)
        assert sessions(h) == [other.record, *opened[2:]]

    @pytest.mark.fills
    def test_there_is_a_bound_in_all(self, h: Harness) -> None:
        """Servers read all of them; a session more, and the oldest of all is gone."""
        opened = []
        for number in range(SESSIONS_MAX // SESSIONS_OF_TOKEN_MAX):
            token = new_token(h, f"n{number}")
            for _ in range(SESSIONS_OF_TOKEN_MAX):
                h.advance(0.001)
                opened.append(open_session(h, token).record)
        h.advance(1.0)
        last = open_session(h, new_token(h, "last"))
        assert sessions(h) == [*opened[1:], last.record]

    def test_sessions_survive_their_store_object(self, h: Harness) -> None:
        """A server that is started again signs nobody out, and one that was closed stays so."""
        token = add(h)
        closed, kept = open_session(h, token), open_session(h, token)
        h.run(h.store.access.close_session(closed.record.id))
        h.reopen(is_clean=False)
        assert sessions(h) == ([kept.record] if h.is_durable else [])


class TestAuditLog:
    def test_an_action_is_recorded_at_the_stores_time(self, h: Harness) -> None:
        """Who, what, to what, how it ended, and in which request."""
        h.advance(5.0)
        first = record(
            h, target="j1", detail={"count": 2**60, "text": "a\0é", "of": [None]}, request_id="r-1"
        )
        second = record(h, "queue.pause", target="'; drop table actions")
        assert recorded(h) == [second, first]
        assert (first.principal_id, first.principal) == ("0123456789ab", "alice")

    def test_who_needs_no_token_is_recorded_by_name(self, h: Harness) -> None:
        action = make_action(Principal.local(), "token.create", id=id_text(h.clock.new_id()))
        h.run(h.store.audit.record(action))
        (found,) = recorded(h)
        assert (found.principal_id, found.principal, found.status) == (None, "local", None)

    def test_to_record_an_action_again_changes_nothing(self, h: Harness) -> None:
        """After an unknown outcome one asks again."""
        action = record(h)
        h.advance(1.0)
        h.run(h.store.audit.record(action))
        assert recorded(h) == [action]

    def test_the_log_is_read_newest_first_page_by_page(self, h: Harness) -> None:
        made = [record(h, target=str(number)) for number in range(5)]
        seen: list[Action] = []
        after: int | None = None
        for size in (2, 2, 1):
            page = h.run(h.store.audit.list(PageRequest(2, after)))
            assert len(page.actions) == size
            seen += page.actions
            after = page.next
        assert (seen, after) == (made[::-1], None)

    @pytest.mark.parametrize("position", [0, 7, 10**18 - 1])
    def test_a_position_that_no_page_gave_out_is_no_error(self, h: Harness, position: int) -> None:
        record(h)
        page = h.run(h.store.audit.list(PageRequest(1, position)))
        assert page.actions in ([], recorded(h))
        assert page.next is None

    def test_an_entry_is_kept_as_long_as_asked(self, h: Harness) -> None:
        """Gone at that time, and not the instant before."""
        record(h)
        h.advance(timedelta(hours=1) - INSTANT)
        assert h.run(h.store.audit.prune(3600.0, 10)) == 0
        h.advance(INSTANT)
        young = record(h)
        assert h.run(h.store.audit.prune(3600.0, 10)) == 1
        assert recorded(h) == [young]

    def test_pruning_is_bounded_and_takes_the_oldest_first(self, h: Harness) -> None:
        made = []
        for _ in range(5):
            made.append(record(h))
            h.advance(1.0)
        assert h.run(h.store.audit.prune(0.0, 0)) == 0
        assert h.run(h.store.audit.prune(0.0, 2)) == 2
        assert recorded(h) == made[:1:-1]
        pruned = h.race([lambda store: store.audit.prune(0.0, 2)] * 3, h.peers(2))
        while more := h.run(h.store.audit.prune(0.0, 10)):
            pruned.append(more)
        assert sum(pruned) == 3
        assert recorded(h) == []

    def test_the_log_survives_its_store_object(self, h: Harness) -> None:
        """S0-1."""
        action = record(h)
        h.reopen(is_clean=False)
        assert recorded(h) == ([action] if h.is_durable else [])

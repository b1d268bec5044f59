"""Bearer tokens: made, presented, forged."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.access import tokens
from fencepost.core.access.bounds import TOKEN_ID_BYTES, TOKEN_QUEUES_MAX, TOKEN_SECRET_BYTES
from fencepost.core.access.tokens import (
    LENGTH,
    NewToken,
    Principal,
    Role,
    TokenOptions,
    check_token_name,
    id_in,
    is_token_id,
    make_token,
    parse_queues,
    parse_request_rate,
    parse_roles,
    verify,
)
from fencepost.errors import ConfigurationError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
RAW = bytes(range(TOKEN_ID_BYTES + TOKEN_SECRET_BYTES))


def make(**options: Any) -> NewToken:
    options = {"name": "ci", "roles": (Role.SUBMIT,), **options}
    return make_token(TokenOptions(**options), RAW, NOW)


TOKEN = make()


def test_a_token_says_whose_it_is_and_holds_a_secret() -> None:
    """192 bits of randomness beside the id."""
    assert TOKEN.text == f"fp_{RAW[:6].hex()}_{RAW[6:].hex()}"
    assert len(TOKEN.text) == LENGTH
    assert id_in(TOKEN.text) == TOKEN.record.id == "000102030405"
    assert is_token_id(TOKEN.record.id)
    assert TOKEN_SECRET_BYTES * 8 >= 160
    assert verify(TOKEN.text, TOKEN.record, NOW)


def test_nothing_that_is_stored_or_shown_lets_anybody_in() -> None:
    """The text is in no representation; the record is not the text."""
    secret = TOKEN.text.rpartition("_")[2]
    for shown in (repr(TOKEN), str(TOKEN), repr(TOKEN.record), f"{TOKEN.__rich_repr__()}"):
        assert secret not in shown
        assert TOKEN.record.digest.hex() not in shown
        assert "ci" in shown
    assert secret.encode() not in msgspec.msgpack.encode(TOKEN.record)
    assert bytes.fromhex(secret) not in msgspec.msgpack.encode(TOKEN.record)


FORGED = [
    "",
    "fp_",
    "fp__",
    "Bearer",
    TOKEN.text[:-1],
    TOKEN.text[1:],
    TOKEN.text + "0",
    TOKEN.text + "\n",
    f" {TOKEN.text}",
    TOKEN.text.upper(),
    TOKEN.text.replace("_", "-"),
    TOKEN.text[:-1] + "0",
    TOKEN.text[:3] + "f" + TOKEN.text[4:],
    TOKEN.text[:-1] + "é",
    TOKEN.text[:-1] + "\ud800",
    TOKEN.text[:-1] + "\N{FULLWIDTH DIGIT ONE}",
    TOKEN.text[:-1] + "\0",
    "fp_" + "z" * 12 + "_" + "0" * 48,
    "f" * 10_000_000,
    TOKEN.record.digest.hex(),
    f"fp_{TOKEN.record.id}_{TOKEN.record.digest.hex()[:48]}",
]


@pytest.mark.parametrize("presented", FORGED, ids=lambda text: ascii(text[:70]))
def test_what_is_forged_is_refused_and_nothing_else_happens(presented: str) -> None:
    """Truncated, of other alphabets, huge: refused, and nothing fails."""
    assert not verify(presented, TOKEN.record, NOW)
    assert not verify(presented, None, NOW)
    assert id_in(presented) is None or presented != TOKEN.text


@given(st.text() | st.text("fp_0123456789abcdef", min_size=LENGTH - 2, max_size=LENGTH + 2))
def test_no_text_is_let_in_and_none_raises(presented: str) -> None:
    assert not verify(presented, TOKEN.record, NOW)
    assert id_in(presented) in (None, presented[3:15])


def test_a_secret_fits_no_other_id() -> None:
    other = msgspec.structs.replace(TOKEN.record, id="ffffffffffff")
    assert not verify(TOKEN.text.replace(TOKEN.record.id, other.id), other, NOW)


def test_a_damaged_digest_lets_nobody_in() -> None:
    for digest in (b"", b"\0" * 32, TOKEN.record.digest[:-1]):
        record = msgspec.structs.replace(TOKEN.record, digest=digest)
        assert not any(verify(text, record, NOW) for text in (TOKEN.text, *FORGED))


@pytest.mark.parametrize("presented", [TOKEN.text, TOKEN.text[:-1] + "0", *FORGED[:6]])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_same_work_is_done_whether_or_not_the_id_is_known(
    presented: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hash, and one comparison in constant time over equal lengths."""
    compared: list[tuple[int, int]] = []
    hashed: list[str] = []
    digest_of = tokens.digest_of

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    def hash_(text: str) -> bytes:
        hashed.append(text)
        return digest_of(text)

    class Watched:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(tokens, "hmac", Watched)
    monkeypatch.setattr(tokens, "digest_of", hash_)
    verify(presented, TOKEN.record if is_known else None, NOW)
    assert compared == [(32, 32)]
    assert len(hashed) == 1


def test_a_token_expires_at_its_instant_and_a_revoked_one_is_over_at_once() -> None:
    token = make(expires=60.0)
    ends = NOW + timedelta(seconds=60)
    assert token.record.expires_at == ends
    assert verify(token.text, token.record, ends - INSTANT)
    assert not verify(token.text, token.record, ends)
    revoked = msgspec.structs.replace(token.record, revoked_at=NOW + INSTANT)
    assert not verify(token.text, revoked, NOW + INSTANT)
    assert not verify(token.text, revoked, NOW), "a server whose clock is behind refuses it too"
    assert token.record.ended_at(NOW) is None
    assert token.record.ended_at(ends) == ends
    assert revoked.ended_at(ends) == NOW + INSTANT


def test_admin_may_all_and_the_others_what_they_are_called() -> None:
    for held in Role:
        principal = Principal(name="x", roles=frozenset({held}))
        allowed = {role for role in Role if principal.may(role)}
        assert allowed == (set(Role) if held is Role.ADMIN else {held})


def test_a_scope_is_the_queues_it_names() -> None:
    everywhere = Principal.of(TOKEN.record)
    assert everywhere.may_use("anything")
    assert (everywhere.token_id, everywhere.name) == (TOKEN.record.id, "ci")
    scoped = Principal.of(make(queues=("mail",)).record)
    assert scoped.may_use("mail")
    assert not scoped.may_use("Mail")
    assert not scoped.may_use("")
    unreadable = Principal.of(make(queues=()).record)
    assert not unreadable.may_use("mail")


def test_whoever_is_local_may_everything() -> None:
    local = Principal.local()
    assert all(local.may(role) for role in Role)
    assert local.may_use("mail")
    assert (local.token_id, local.name) == (None, "local")


def test_roles_are_read_in_any_order_and_once() -> None:
    assert parse_roles(["read", Role.SUBMIT, "read"]) == (Role.SUBMIT, Role.READ)
    assert parse_roles("admin") == (Role.ADMIN,)


@pytest.mark.parametrize("value", [[], "", "root", ["read", "x"], 7, None, [None], [["read"]]])
def test_what_is_no_role_is_refused_with_those_there_are(value: object) -> None:
    with pytest.raises(ConfigurationError, match="role"):
        parse_roles(value)


def test_queues_are_a_scope_and_none_is_no_scope() -> None:
    assert parse_queues(None) is None
    assert parse_queues(["mail", "bulk", "mail"]) == ("bulk", "mail")


@pytest.mark.parametrize(
    "value", ["mail", [], [""], [7], 7, ["a\0"], [f"q{n}" for n in range(TOKEN_QUEUES_MAX + 1)]]
)
def test_a_scope_that_means_nothing_or_all_by_a_slip_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match="queue"):
        parse_queues(value)


@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan"), float("inf"), 1e7, []])
def test_a_rate_is_a_number_of_requests(value: object) -> None:
    with pytest.raises(ConfigurationError, match="requests a second"):
        parse_request_rate(value)
    assert parse_request_rate(None) is None
    assert parse_request_rate(100) == 100.0


@pytest.mark.parametrize("value", ["", 7, None, "a\n", "x" * 101])
def test_a_name_can_be_read_in_one_line(value: object) -> None:
    with pytest.raises(ConfigurationError, match="the name of a token"):
        check_token_name(value)
    assert check_token_name("ci für alle") == "ci für alle"

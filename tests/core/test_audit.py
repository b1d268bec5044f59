"""What an entry of the audit log may hold."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.core.access.audit import decode_detail, encode_detail, make_action
from fencepost.core.access.bounds import (
    AUDIT_DETAIL_BYTES_MAX,
    AUDIT_NAME_LENGTH_MAX,
    AUDIT_TARGET_LENGTH_MAX,
    REQUEST_ID_LENGTH_MAX,
)
from fencepost.core.access.tokens import Principal, Role

ALICE = Principal(token_id="0123456789ab", name="alice", roles=frozenset({Role.OPERATE}))


def test_an_action_says_who_did_what_to_what() -> None:
    action = make_action(
        ALICE, "job.cancel", id="i", target="j1", detail={"count": 3}, request_id="r"
    )
    assert (action.principal_id, action.principal) == ("0123456789ab", "alice")
    assert (action.action, action.target, action.detail) == ("job.cancel", "j1", {"count": 3})
    assert (action.request_id, action.status, action.at) == ("r", None, None)


def test_whatever_a_stranger_sends_fits_and_can_be_stored() -> None:
    """Bounded, and nothing that steers a terminal or that a database refuses."""
    action = make_action(
        ALICE, "a" * 1000, id="i", target="\x1b[2J\0\ud800" + "t" * 1000, request_id="r" * 1000
    )
    assert len(action.action) == AUDIT_NAME_LENGTH_MAX
    assert len(action.target) == AUDIT_TARGET_LENGTH_MAX
    assert len(action.request_id or "") == REQUEST_ID_LENGTH_MAX
    assert action.target.isprintable()
    assert action.target.encode()


@pytest.mark.parametrize(
    "detail", [{"a": "x" * AUDIT_DETAIL_BYTES_MAX}, {"a": object()}, {"a": "\ud800"}]
)
def test_detail_that_is_too_large_or_cannot_be_kept_is_left_out(detail: dict[str, Any]) -> None:
    assert make_action(ALICE, "a", id="i", detail=detail).detail.keys() == {"omitted"}


def test_detail_comes_back_as_it_was_and_what_cannot_be_read_as_nothing() -> None:
    detail = {"n": 2**63, "text": "a\0é", "list": [1, None]}
    assert decode_detail(encode_detail(detail)) == detail
    assert make_action(ALICE, "a", id="i", detail=detail).detail == detail
    for text in ("", "[]", "{", "null"):
        assert decode_detail(text) == {}

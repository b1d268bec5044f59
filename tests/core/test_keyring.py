"""Encryption keys as they are written, and rings of them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.encryption import EncryptionKey, KeyRing, is_key_id, parse_key, parse_keys
from fencepost.errors import ConfigurationError

SECRET = bytes(range(32))
DIGITS = base64.b64encode(SECRET).decode()
OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)


@given(
    st.text("abcXYZ019._-", min_size=1, max_size=64).filter(is_key_id),
    st.binary(min_size=32, max_size=32),
)
def test_a_key_is_read_as_it_is_written(id_: str, secret: bytes) -> None:
    key = EncryptionKey(id_, secret)
    assert parse_key(key.text) == key


@pytest.mark.parametrize(
    "digits",
    [
        DIGITS,
        DIGITS.rstrip("="),
        base64.urlsafe_b64encode(SECRET).decode(),
        f" {DIGITS}\n",
    ],
)
def test_either_alphabet_of_base64_will_do(digits: str) -> None:
    assert parse_key(f"k:{digits}") == EncryptionKey("k", SECRET)


@pytest.mark.parametrize(
    "text",
    [
        "",
        DIGITS,
        f":{DIGITS}",
        f"a b:{DIGITS}",
        f"-k:{DIGITS}",
        f"{'k' * 65}:{DIGITS}",
        f"ключ:{DIGITS}",
        "k:",
        f"k:{DIGITS[:-4]}",
        f"k:{DIGITS}AAAA",
        f"k:{DIGITS[:20]}!{DIGITS[21:]}",
        None,
        7,
        b"k:" + DIGITS.encode(),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(text: Any) -> None:
    """A message ends up in logs; what was meant to be a secret must not."""
    with pytest.raises(ConfigurationError) as caught:
        parse_key(text)
    assert "fencepost keys new" in str(caught.value)
    assert DIGITS[:16] not in str(caught.value)


@pytest.mark.parametrize("shown", [repr, str, lambda key: repr(key.__rich_repr__())])
def test_no_representation_shows_the_secret(shown: Any) -> None:
    for value in (OLD, KeyRing((OLD,))):
        assert "ooo" not in shown(value)
    assert "old" in repr(OLD)


def test_the_first_key_encrypts_and_every_one_is_known() -> None:
    ring = parse_keys(f"{NEW.text}, {OLD.text},")
    assert ring == KeyRing((NEW, OLD))
    assert ring.current is ring.keys[0]
    assert ring.ids == ("new", "old")
    assert "old" in ring
    assert "other" not in ring


@pytest.mark.parametrize(
    "given", [[NEW, OLD.text], (NEW, OLD), KeyRing((NEW, OLD)), f"{NEW.text},{OLD.text}"]
)
def test_a_ring_is_given_in_several_ways(given: Any) -> None:
    assert parse_keys(given).ids == ("new", "old")
    assert parse_keys(NEW).ids == ("new",)


@pytest.mark.parametrize(
    "given", ["", " , ", [], [""], [NEW, NEW], {"k": SECRET}, 7, b"", [NEW] * 101]
)
def test_a_ring_that_makes_no_sense_is_refused(given: Any) -> None:
    """Above all an empty one: jobs would be stored in the clear, and nobody told."""
    with pytest.raises(ConfigurationError):
        parse_keys(given)

"""Bytes as the payload of a handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_signature import (
    Call,
    Context,
    blob,
    call,
    double_starred,
    nothing,
    plain,
    run,
    signature,
    submit,
)

from fencepost.core.job.job import Body, Encoding
from fencepost.errors import InvalidPayloadError


@given(st.binary())
def test_a_lone_bytes_argument_is_stored_as_it_is(data: bytes) -> None:
    """S1-90, C24."""

    def anything(data: Any) -> Any:
        return data

    def perhaps(data: bytes | None = None) -> Any:
        return data

    def by_position(data: bytes, /) -> Any:
        return data

    def starred_blob(*data: bytes) -> Any:
        return data[0]

    for handler in (blob, anything, perhaps, by_position, starred_blob):
        for value in (data, bytearray(data), memoryview(data)):
            payload = submit(handler, value)
            assert payload == Body(data, Encoding.BINARY)
            assert run(handler, payload) == data


def test_a_lone_bytes_argument_may_be_given_by_name() -> None:
    """S1-90, C24."""

    def named(*, data: bytes) -> bytes:
        return data

    for handler in (blob, named):
        payload = submit(handler, data=b"\xff")
        assert payload == Body(b"\xff", Encoding.BINARY)
        assert run(handler, payload) == b"\xff"


def test_a_handler_with_a_context_may_take_bytes_as_well() -> None:
    """S1-90, C24: the context is no part of the payload."""

    def handler(ctx: Context, data: bytes) -> bytes:
        return data

    assert run(handler, submit(handler, b"\xff"), ctx=Context()) == b"\xff"


def test_bytes_beside_other_arguments_travel_inside_the_json() -> None:
    """S1-90."""

    def pair(data: bytes, n: int) -> Any:
        return data, n

    payload = submit(pair, b"\xff", 1)
    assert payload.encoding is Encoding.JSON
    assert run(pair, payload) == (b"\xff", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (call(b"x"), r"Expected `int`, got `bytes` - at `\$\.number`"),
        (call(number=b"x"), r"at `\$\.number`"),
        (call(nope=b"x"), "nope"),
    ],
)
def test_bytes_are_refused_where_the_handler_wants_something_else(
    arguments: Call, message: str
) -> None:
    """S1-87."""

    def handler(number: int) -> None: ...

    args, kwargs = arguments
    with pytest.raises(InvalidPayloadError, match=message):
        submit(handler, *args, **kwargs)


def test_bytes_by_position_are_refused_where_only_a_name_will_do() -> None:
    """S1-87: as the call itself would be."""

    def named(*, data: bytes) -> None: ...

    with pytest.raises(InvalidPayloadError, match="Extra positional"):
        submit(named, b"x")


def test_text_is_not_bytes() -> None:
    """S1-92: "text" is valid base64, and would reach the handler as three other bytes."""

    def optional(n: int, *rest: int, data: bytes | None = None) -> Any:
        return data

    with pytest.raises(InvalidPayloadError, match=r"Expected `bytes`, got `str` - at `\$\.data`"):
        submit(blob, "text")
    with pytest.raises(InvalidPayloadError, match=r"Expected `bytes`, got `str` - at `\$\.data`"):
        submit(optional, 1, data="text")
    assert run(optional, submit(optional, 1)) is None
    assert run(optional, submit(optional, 1, data=b"text")) == b"text"


def test_bytes_written_in_json_by_others_are_base64() -> None:
    """C24: a caller in another language has no other way."""
    assert run(blob, Body(b'{"data":"dGV4dA=="}')) == b"text"


@pytest.mark.parametrize("handler", [nothing, plain, double_starred])
def test_a_binary_payload_needs_a_handler_of_one_parameter(handler: Callable[..., Any]) -> None:
    """S1-87, C24."""
    with pytest.raises(InvalidPayloadError, match="needs a handler of one parameter"):
        signature(handler).decode(Body(b"x", Encoding.BINARY))


def test_a_lone_double_starred_parameter_takes_no_binary_payload() -> None:
    """S1-90: there would be no name to give it."""

    def extra(**data: bytes) -> Any:
        return data

    payload = submit(extra, data=b"\xff")
    assert payload.encoding is Encoding.JSON
    assert run(extra, payload) == {"data": b"\xff"}
    with pytest.raises(InvalidPayloadError, match="needs a handler of one parameter"):
        signature(extra).decode(Body(b"x", Encoding.BINARY))

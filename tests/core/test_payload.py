"""Payloads and results as bytes."""

from __future__ import annotations

import dataclasses
import enum
import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.bounds import PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX
from fencepost.core.job.job import Body, Encoding
from fencepost.core.values.payload import (
    check_size,
    convert,
    decode,
    decoder_for,
    encode,
    encode_json,
    parse_max_payload,
)
from fencepost.errors import ConfigurationError, InvalidPayloadError, PayloadTooLargeError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
JSON_VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


class Model:
    """Encodes and checks itself as a Pydantic model does."""

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"amount": self.amount}

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if not isinstance(value, dict) or value.keys() != {"amount"}:
            raise ValueError("a Model has an amount")
        return cls(value["amount"])


class Opaque:
    """Something that no encoder knows."""


@dataclasses.dataclass
class Point:
    x: float


class Pair(msgspec.Struct):
    x: float


class Level(enum.Enum):
    ODD = math.nan


@given(JSON_VALUES)
def test_any_json_value_comes_back_exactly(value: Any) -> None:
    """S1-90, S1-92, S1-93: numbers of any size, emoji and NUL among them."""
    body = encode(value)
    assert body.encoding is Encoding.JSON
    assert repr(decode(body)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**63) - 1, 10**300, "👩‍🚀", "a\0b", "", "null", "NaN", [None], 1e308, -0.0, {}],
)
def test_values_that_other_encoders_spoil_come_back_exactly(value: Any) -> None:
    """S1-90, S1-92."""
    assert repr(decode(encode(value))) == repr(value)


@given(st.binary())
def test_bytes_are_stored_as_they_are(data: bytes) -> None:
    """S1-90, C24: they need not be UTF-8."""
    for value in (data, bytearray(data), memoryview(data)):
        assert encode(value) == Body(data, Encoding.BINARY)
        assert decode(encode(value)) == data


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, [math.nan], {"a": {"b": (1, math.inf)}}, {math.nan}),
        *(Point(math.nan), Pair(math.inf), Model(math.nan), [Model(math.inf)], Level.ODD),
        ["null", math.nan],
    ],
)
def test_what_would_come_back_as_null_is_refused(value: Any) -> None:
    """S1-90: NaN and infinity have no JSON form, wherever they hide."""
    with pytest.raises(InvalidPayloadError, match="NaN and infinity"):
        encode(value)


@pytest.mark.parametrize("value", [None, "null", {"null": [None, 1.5]}, Point(1.0), {"a": {1, 2}}])
def test_an_honest_null_is_not_mistaken_for_nan(value: Any) -> None:
    """S1-90."""
    assert encode([value, None]).data.endswith(b",null]")


@pytest.mark.parametrize(
    ("value", "offender"),
    [
        (Opaque(), "Opaque"),
        ({"deep": [Opaque()]}, "Opaque"),
        (Opaque, "type"),
        (1j, "complex"),
        ({(1, 2): 3}, "tuple"),
        ({None: 1}, "NoneType"),
        (lambda: None, "function"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_its_type(value: Any, offender: str) -> None:
    """S1-90, S1-87."""
    with pytest.raises(InvalidPayloadError, match=f"cannot be written as JSON: {offender}"):
        encode(value)


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\ud800": 1}])
def test_text_that_is_not_unicode_is_refused(value: Any) -> None:
    """S1-92."""
    with pytest.raises(InvalidPayloadError, match="surrogates"):
        encode(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    """S1-90."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidPayloadError, match="recursion"):
        encode(loop)


def test_a_number_too_long_to_write_is_refused() -> None:
    """S1-90."""
    with pytest.raises(InvalidPayloadError, match="4300 digits"):
        encode(10**5_000)


@given(st.recursive(SCALARS | st.floats() | st.binary() | st.complex_numbers(), st.lists))
def test_whatever_is_encoded_can_be_decoded_and_all_else_is_an_invalid_payload(value: Any) -> None:
    """S1-90."""
    try:
        body = encode(value)
    except InvalidPayloadError:
        return
    decode(body)


@given(st.binary() | st.text().map(str.encode))
def test_corrupt_bytes_are_an_invalid_payload_and_nothing_else(data: bytes) -> None:
    """S1-87, S1-92: undecodable is permanent, never a crash."""
    with suppress(InvalidPayloadError):
        decode(Body(data))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"\xff", b'"\xff"', b'"\\ud800"', b"NaN", b"1 2", b"1e999", b"9" * 5_000),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="deep"),
    ],
)
def test_bytes_that_are_not_json_are_refused(data: bytes) -> None:
    """S1-87, S1-92."""
    with pytest.raises(InvalidPayloadError, match="not valid JSON"):
        decode(Body(data))


def test_a_model_says_itself_how_it_is_written_and_read() -> None:
    """S1-93: the schema is the application's."""
    body = encode_json(Model(2.5))
    assert body == Body(b'{"amount":2.5}')
    assert decoder_for(Model).decode(body.data).amount == 2.5
    assert convert({"amount": 1}, Model).amount == 1


def test_a_model_that_refuses_its_data_is_a_validation_error() -> None:
    """S1-87."""
    with pytest.raises(msgspec.ValidationError, match="a Model has an amount"):
        decoder_for(Model).decode(b"[]")


def test_an_object_may_be_anything_and_an_opaque_type_nothing() -> None:
    """S1-93."""
    assert decoder_for(list[object]).decode(b'[1, "a", null]') == [1, "a", None]
    with pytest.raises(NotImplementedError, match="cannot read Opaque from JSON"):
        decoder_for(Opaque).decode(b"{}")


def test_a_payload_may_be_as_large_as_its_limit_and_not_a_byte_larger() -> None:
    """S1-91: what is counted is what is stored."""
    body = Body(b"x" * 10)
    assert check_size(body, 10) is body
    with pytest.raises(PayloadTooLargeError, match="payload of 10 bytes") as caught:
        check_size(body, 9)
    assert (caught.value.size, caught.value.limit) == (10, 9)


def test_the_limit_is_a_megabyte_and_may_be_raised_to_sixteen() -> None:
    """S1-91."""
    assert (PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX) == (1_000_000, 16_000_000)
    for limit in (1, PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX):
        assert parse_max_payload(limit) == limit


@pytest.mark.parametrize("limit", [0, -1, PAYLOAD_BYTES_MAX + 1, True, 1e6, "1MB", None])
def test_a_limit_that_makes_no_sense_is_refused(limit: Any) -> None:
    """S1-91."""
    with pytest.raises(ConfigurationError, match="max_payload must lie between 1 and 16,000,000"):
        parse_max_payload(limit)

"""A handler's signature as the schema of its payload."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, NamedTuple, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_payload import Model, Opaque, Pair, Point

from fencepost.core.job.job import Body, Encoding
from fencepost.core.values.signature import Signature
from fencepost.errors import EncryptionError, InvalidPayloadError


class Context:
    """What a worker hands to the handler itself."""


class Color(Enum):
    RED = "red"


class Row(NamedTuple):
    n: int


class Options(TypedDict):
    n: int


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Call = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


def signature(handler: Callable[..., Any]) -> Signature:
    return Signature(handler, Context)


def submit(handler: Callable[..., Any], *args: Any, **kwargs: Any) -> Body:
    return signature(handler).encode(args, kwargs)


def run(handler: Callable[..., Any], payload: Body, **context: Any) -> Any:
    args, kwargs = signature(handler).decode(payload)
    return handler(*args, **kwargs, **context)


# Handlers. Each returns all it was given, so that a round trip shows whether it arrived.


def plain(user_id: int, note: str = "-") -> Any:
    return user_id, note


def unannotated(a, b=2, *, c, d=4) -> Any:  # type: ignore[no-untyped-def]  # as users may write it
    return a, b, c, d


def keyword_only(*, a: int, b: int = 2) -> Any:
    return a, b


def positional_only(a: int, b: int = 2, /, c: int = 3) -> Any:
    return a, b, c


def starred(a: int, *rest: int) -> Any:
    return a, rest


def starred_defaults(a: int = 1, b: int = 2, *rest: int) -> Any:
    return a, b, rest


def double_starred(a: int, /, b: int = 2, **extra: float) -> Any:
    return a, b, extra


def everything(a: int, /, b: Point, *rest: Color, c: datetime = NOON, **extra: Pair) -> Any:
    return a, b, rest, c, extra


def rich(
    point: Point,
    pair: Pair,
    color: Color,
    when: datetime,
    model: Model,
    row: Row,
    options: Options,
    maybe: Optional[int] = None,  # noqa: UP045 - as users may write it
    choice: Literal["a", "b"] = "a",
    anything: object = None,
) -> Any:
    return point, pair, color, when, model.amount, row, options, maybe, choice, anything


def blob(data: bytes) -> bytes:
    return data


def nothing() -> None:
    return None


@pytest.mark.parametrize(
    ("handler", "arguments", "data"),
    [
        (plain, call(7), b'{"user_id":7}'),
        (plain, call(7, "hi"), b'{"user_id":7,"note":"hi"}'),
        (plain, call(note="hi", user_id=7), b'{"user_id":7,"note":"hi"}'),
        (unannotated, call([1], c=None), b'{"a":[1],"c":null}'),
        (unannotated, call(1, 2, c=3, d={"x": 1}), b'{"a":1,"b":2,"c":3,"d":{"x":1}}'),
        (keyword_only, call(a=1), b'{"a":1}'),
        (positional_only, call(1), b'{"a":1}'),
        (positional_only, call(1, 5), b'{"a":1,"b":5}'),
        (positional_only, call(1, c=9), b'{"a":1,"c":9}'),
        (starred, call(1), b'{"a":1}'),
        (starred, call(1, 2, 3), b'{"a":1,"rest":[2,3]}'),
        (starred_defaults, call(), b"{}"),
        (starred_defaults, call(b=5), b'{"b":5}'),
        (starred_defaults, call(1, 5, 6), b'{"a":1,"b":5,"rest":[6]}'),
        (double_starred, call(1), b'{"a":1}'),
        (double_starred, call(1, b=5, z=6.5), b'{"a":1,"b":5,"z":6.5}'),
        (double_starred, call(1, extra=2.5), b'{"a":1,"extra":2.5}'),
        (nothing, call(), b"{}"),
    ],
)
def test_a_call_becomes_an_object_by_parameter_name_and_the_same_call_again(
    handler: Callable[..., Any], arguments: Call, data: bytes
) -> None:
    """S1-90, S1-93: a default stays out, so that a handler whose default changes uses the new."""
    args, kwargs = arguments
    payload = submit(handler, *args, **kwargs)
    assert payload == Body(data)
    assert run(handler, payload) == handler(*args, **kwargs)


def test_values_with_types_of_their_own_arrive_as_what_they_were() -> None:
    """S1-90, S1-93."""
    given_ = (Point(1.5), Pair(2.5), Color.RED, NOON, Model(3.5), Row(4), Options(n=5))
    result = run(rich, submit(rich, *given_, maybe=6, choice="b", anything=[7]))
    assert result == (*given_[:4], 3.5, *given_[5:], 6, "b", [7])
    assert run(rich, submit(rich, *given_))[-3:] == (None, "a", None)
    assert run(rich, submit(rich, *given_, maybe=None))[-3:] == (None, "a", None)


def test_starred_parameters_have_their_types_checked_and_restored_too() -> None:
    """S1-90, S1-93."""
    payload = submit(everything, 1, Point(2.5), Color.RED, c=NOON, z=Pair(3.5))
    assert run(everything, payload) == (1, Point(2.5), (Color.RED,), NOON, {"z": Pair(3.5)})


@pytest.mark.parametrize(
    ("handler", "arguments", "message"),
    [
        (plain, call("7"), r"Expected `int`, got `str` - at `\$\.user_id`"),
        (plain, call(7, note=5), r"Expected `str`, got `int` - at `\$\.note`"),
        (plain, call(7, note=None), r"got `null` - at `\$\.note`"),
        (plain, call(b"7", "hi"), r"at `\$\.user_id`"),
        (plain, call(), r"plain\(\): Missing required argument 'user_id'"),
        (plain, call(1, "hi", 3), r"plain\(\): Extra positional"),
        (plain, call(1, user_id=1), r"plain\(\): Argument 'user_id' given by name and position"),
        (plain, call(1, nope=1), r"plain\(\): Unexpected keyword argument 'nope'"),
        (plain, call(Opaque()), r"Opaque has no JSON form"),
        (plain, call(7, note="\ud800"), r"surrogates"),
        (keyword_only, call(1), r"keyword_only\(\): Extra positional"),
        (nothing, call(1), r"nothing\(\): Extra positional"),
        (starred, call(1, "2"), r"Expected `int`, got `str` - at `\$\.rest\[0\]`"),
        (starred, call(1, z=2), r"starred\(\): got an unexpected keyword argument 'z'"),
        (starred, call(), r"starred\(\): missing a required argument: 'a'"),
        (double_starred, call(1, z="x"), r"Expected `float`, got `str`"),
        (double_starred, call("1"), r"at `\$\.a`"),
        (everything, call(1, Point("x")), r"at `\$\.b\.x`"),  # type: ignore[arg-type]  # is the point
    ],
)
def test_a_call_that_the_handler_cannot_take_is_refused_with_the_path(
    handler: Callable[..., Any], arguments: Call, message: str
) -> None:
    """S1-87: at submission, before anything is stored."""
    args, kwargs = arguments
    with pytest.raises(InvalidPayloadError, match=message):
        submit(handler, *args, **kwargs)


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("point", Point("x"), r"\$\.point\.x"),  # type: ignore[arg-type]  # is the point
        ("pair", {"x": None}, r"\$\.pair\.x"),
        ("color", "green", r"\$\.color"),
        ("when", "yesterday", r"\$\.when"),
        ("model", {"sum": 1}, r"\$\.model"),
        ("row", ["x"], r"\$\.row\[0\]"),
        ("options", {}, r"\$\.options"),
        ("maybe", "x", r"\$\.maybe"),
        ("choice", "c", r"\$\.choice"),
    ],
)
def test_a_wrong_value_inside_a_rich_type_is_refused_with_its_path(
    name: str, value: Any, path: str
) -> None:
    """S1-87."""
    good = dict(zip(rich.__annotations__, (Point(1.0), Pair(2.0), Color.RED, NOON), strict=False))
    good |= {"model": Model(3.0), "row": Row(4), "options": Options(n=5)}
    with pytest.raises(InvalidPayloadError, match=f"at `{path}`"):
        submit(rich, **(good | {name: value}))


@pytest.mark.parametrize(
    ("handler", "name"),
    [(starred, "rest"), (double_starred, "a"), (everything, "rest"), (everything, "a")],
)
def test_a_keyword_that_would_be_read_as_another_parameter_is_refused(
    handler: Callable[..., Any], name: str
) -> None:
    """S1-90: what a caller can submit is exactly what a worker can read."""
    with pytest.raises(InvalidPayloadError):
        submit(handler, 1, Point(1.0), **{name: 2})


@pytest.mark.parametrize(
    ("handler", "data", "message"),
    [
        (plain, b"", "truncated"),
        (plain, b"\xff", "malformed"),
        (plain, b'{"user_id":1,"note":"\xff"}', "utf-8"),
        (plain, b"[7]", "Expected `object`, got `array`"),
        (plain, b"{}", "missing required field `user_id`"),
        (plain, b'{"user_id":1,"nope":2}', "unknown field `nope`"),
        (plain, b'{"user_id":"1"}', r"at `\$\.user_id`"),
        (starred, b'{"a":1,"rest":5}', r"at `\$\.rest`"),
        (starred, b'{"a":1,"nope":2}', "unknown field `nope`"),
        (double_starred, b"[]", "Expected `object`, got `list`"),
        (double_starred, b"\xff", "not valid JSON"),
        (double_starred, b"{}", "missing required field `a`"),
        (starred_defaults, b'{"rest":[1]}', r"'rest' needs 'a' before it"),
        (starred_defaults, b'{"a":1,"rest":[1]}', r"'rest' needs 'b' before it"),
    ],
)
def test_a_stored_payload_that_does_not_fit_is_refused(
    handler: Callable[..., Any], data: bytes, message: str
) -> None:
    """S1-87: permanently, so that it causes no storm of retries."""
    with pytest.raises(InvalidPayloadError, match=message):
        signature(handler).decode(Body(data))


def test_a_payload_with_a_hole_in_its_positions_is_refused_not_shortened() -> None:
    """S1-90: no argument is dropped in silence."""

    def holed(a: int = 1, b: int = 2, /) -> Any:
        return a, b

    with pytest.raises(InvalidPayloadError, match="'b' needs 'a' before it"):
        signature(holed).decode(Body(b'{"b":5}'))
    assert signature(holed).decode(Body(b'{"a":5}')) == ([5], {})


@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_make_a_signature_raise_anything_else(data: bytes) -> None:
    """S1-87."""
    for handler in (plain, starred, double_starred, blob):
        for encoding in Encoding:
            with suppress(InvalidPayloadError, EncryptionError):
                signature(handler).decode(Body(data, encoding))


@given(
    a=st.integers(),
    rest=st.lists(st.integers()),
    extra=st.dictionaries(st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False)),
)
def test_any_arguments_that_are_accepted_arrive_unchanged(
    a: int, rest: list[int], extra: dict[str, float]
) -> None:
    """S1-90."""

    def handler(a: int, *rest: int, **extra: float) -> Any:
        return a, rest, extra

    try:
        payload = submit(handler, a, *rest, **extra)
    except (InvalidPayloadError, TypeError):
        assert extra.keys() & {"a", "rest", "handler"}
        return
    assert run(handler, payload) == (a, tuple(rest), extra)


def test_a_value_left_unset_is_the_default() -> None:
    """S1-93."""
    assert run(plain, submit(plain, 7, msgspec.UNSET)) == (7, "-")

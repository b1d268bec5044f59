"""What parsers are fed: valid values bent out of shape, and values of any kind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

LENGTH_MAX = 6_000
"""Past 4,300 digits Python refuses to make a number of text: an edge of its own."""

AWKWARD = (
    *("", " ", "\0", "\n", "\ud800", "\udcff", "é", "٣", "\uff11", "\u00b2", "\u0131", "ß"),
    *("=", "==", ".", "..", ",", ":", "//", "@", "#", "?", "&", "%", "%00", "%zz", "[", "]"),
    *("-1", "+1", "1_0", "0x1", "1e309", "nan", "inf", "-inf", "NaN", "true", "null", "None"),
    *("9" * 19, "9" * 400, "9" * LENGTH_MAX, "a" * LENGTH_MAX, "[" * LENGTH_MAX, "{" * 2_000),
)

anything = st.characters(exclude_categories=())
raw_text = (
    st.text(anything, max_size=60)
    | st.sampled_from(AWKWARD)
    | st.lists(st.sampled_from(AWKWARD), max_size=4).map("".join)
    | st.builds(
        lambda text, times: text * times, st.text(anything, max_size=4), st.integers(0, 999)
    )
)
raw_bytes = (
    st.binary(max_size=80)
    | st.sampled_from([text.encode("utf-8", "surrogatepass") for text in AWKWARD])
    | st.builds(lambda data, times: data * times, st.binary(max_size=3), st.integers(0, 2_000))
)
numbers = (
    st.integers()
    | st.integers(-5, 5)
    | st.floats()
    | st.sampled_from([10**400, -1, 0, 2**31, 2**63, 2**64, True, False])
    | st.builds(pow, st.just(10), st.just(LENGTH_MAX))
)
scalars = st.none() | numbers | raw_text | raw_bytes | st.timedeltas() | st.datetimes()
objects: SearchStrategy[Any] = st.recursive(
    scalars | st.builds(object) | st.just(timedelta.max),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(st.integers() | st.text(max_size=3), max_size=3)
        | st.dictionaries(st.text(anything, max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=8,
)
json_values: SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)


@st.composite
def mutated(draw: st.DrawFn, valid: SearchStrategy[str]) -> str:
    """Return valid text to which a few things have happened."""
    text = draw(valid)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(start + draw(st.integers(0, 4)), len(text))
        match draw(st.sampled_from(["cut", "put", "double", "swap", "case"])):
            case "cut":
                text = text[:start] + text[end:]
            case "put":
                text = text[:start] + draw(raw_text) + text[end:]
            case "double":
                text = text[:end] + text[start:]
            case "swap":
                text = text[start:] + text[:start]
            case _:
                text = text[:start].swapcase() + text[start:]
    return text


def bent(valid: SearchStrategy[str]) -> SearchStrategy[Any]:
    """Return text: valid, nearly so, or not at all."""
    return valid | mutated(valid) | raw_text


def bent_bytes(valid: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """Return bytes: valid, nearly so, or not at all."""
    as_text = valid.map(lambda data: data.decode("latin-1"))
    back = mutated(as_text).map(lambda text: text.encode("latin-1", "replace"))
    return valid | back | raw_bytes


def keywords(*names: str, values: SearchStrategy[Any] = objects) -> SearchStrategy[dict[str, Any]]:
    """Return keyword arguments: any of these names, with any values."""
    return st.dictionaries(st.sampled_from(names), values, max_size=len(names))

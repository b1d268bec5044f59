"""The shape of JSON as it is counted, beside the shape that a decoder finds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import InvalidPayloadError
from fencepost.http.request.read import BodyReader
from fencepost.wire import bodies
from fencepost.wire.bodies import ITEM_DEPTH, PIECE, check_shape
from fencepost.wire.bounds import JSON_DEPTH_MAX, JSON_VALUES_MAX
from fencepost.wire.jobs import Batch

TEXTS = st.text(st.sampled_from('[]{}",\\\\\\a\n'), max_size=30)
VALUES = st.recursive(
    st.none() | st.integers(0, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=60,
)


def found(value: Any, depth: int = 1) -> tuple[int, int, int]:
    """Return the depth, how many are at ITEM_DEPTH, and the commas and opening brackets."""
    if not isinstance(value, (list, dict)):
        return depth - 1, 0, 0
    inner = [
        found(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value)
    ]
    deepest = max([depth, *(each[0] for each in inner)])
    items = (depth == ITEM_DEPTH) + sum(each[1] for each in inner)
    return deepest, items, 1 + max(0, len(inner) - 1) + sum(each[2] for each in inner)


@given(value=VALUES, piece=st.integers(1, 40), depth=st.integers(1, 8), values=st.integers(1, 60))
def test_what_is_counted_is_what_is_there(value: Any, piece: int, depth: int, values: int) -> None:
    """Wherever the pieces end: within a text, or behind a backslash."""
    data = json.dumps(value, separators=(",", ":")).encode()
    deepest, items, counted = found(value)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bodies, "PIECE", piece)
        patched.setattr(bodies, "JSON_DEPTH_MAX", depth)
        patched.setattr(bodies, "JSON_VALUES_MAX", values)
        if deepest > depth or counted > values:
            with pytest.raises(InvalidPayloadError):
                check_shape(data)
        elif data.count(b"[") + data.count(b"{") > depth:
            assert check_shape(data) == items
        else:
            assert check_shape(data) >= items


@pytest.mark.parametrize("run", range(PIECE - 3, PIECE + 4))
def test_backslashes_across_pieces_hide_nothing(run: int) -> None:
    deep = b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1)
    text = b'"' + b"\\" * (run - run % 2)
    check_shape(b'[%b",%b]' % (text, deep[2:-2]))
    with pytest.raises(InvalidPayloadError, match="nested deeper than 100 levels"):
        check_shape(b'[%b",%b]' % (text, deep))
    assert check_shape(b'[%b\\"%b"]' % (text, deep)) == 0  # an escaped quote: all of it is text


def test_values_are_counted_and_texts_are_not() -> None:
    most = b"[" + b"1," * (JSON_VALUES_MAX - 1) + b"1]"
    check_shape(most)
    check_shape(b'["%b"]' % (b"[{,}]" * JSON_VALUES_MAX))
    with pytest.raises(InvalidPayloadError, match="1,000,000 values"):
        check_shape(b"[%b]" % most)


def test_a_batch_is_read_again_without_reading_its_types_for_each_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `1.0` for a priority; msgspec takes 2 ms to say what the fields of a job are."""
    asked: list[Any] = []
    fields = msgspec.structs.fields

    def counted(kind: Any) -> Any:
        asked.append(kind)
        return fields(kind)

    monkeypatch.setattr(msgspec.structs, "fields", counted)
    jobs = b",".join([b'{"type":"t","priority":1.0,"retry":{"max_attempts":2.0}}'] * 100)
    batch = BodyReader(Batch, is_batch=True).read(b'{"jobs":[' + jobs + b"]}")
    assert [job.priority for job in batch.jobs] == [1] * 100
    assert len(asked) <= 3

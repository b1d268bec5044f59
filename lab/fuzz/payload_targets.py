"""Payloads, results and what else crosses the edge as JSON or bytes."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fencepost.core.bounds import MESSAGE_LENGTH_MAX
from fencepost.core.display import shown
from fencepost.core.job.failure import classify
from fencepost.core.job.job import Body, Category, Encoding, Failure, Progress
from fencepost.core.job.outcome import Failed, Snoozed
from fencepost.core.values.payload import decode, encode, encode_result
from fencepost.core.values.signature import Signature
from fencepost.errors import (
    EncryptionError,
    InvalidPayloadError,
    PermanentError,
    Snooze,
    TemporaryError,
)
from fencepost.store.sql.codec import (
    decode_failure,
    decode_progress,
    encode_failure,
    encode_json,
    readable_tags,
)
from fencepost.worker import Context
from lab.fuzz.inputs import bent, bent_bytes, json_values, objects, raw_bytes, raw_text
from lab.fuzz.target import Target


class Order(msgspec.Struct):
    """An argument with a shape."""

    id: int
    lines: list[tuple[str, float]] = []
    note: str | None = None


def plain(a: int, b: str, c: float) -> None: ...


def shaped(order: Order, *, dry: bool = False, ctx: Context | None = None) -> None: ...


def greedy(first: int, *rest: str, last: bytes = b"", **more: int | None) -> None: ...


def loose(value, other=None) -> None:  # type: ignore[no-untyped-def]  # the untyped case
    ...


def binary(data: bytes) -> None: ...


SIGNATURES = [Signature(each, Context) for each in (plain, shaped, greedy, loose, binary)]

EXAMPLES: list[dict[str, Any]] = [
    {"a": 1, "b": "x", "c": 1.5},
    {"order": {"id": 1, "lines": [["a", 1.0]], "note": None}, "dry": True},
    {"first": 1, "rest": ["a"], "last": "AAE=", "x": 2},
    {"value": [1, {"k": None}], "other": "é"},
    {"data": "AAE="},
]
"""A payload that fits each of them."""

pairs = st.sampled_from(list(zip(SIGNATURES, EXAMPLES, strict=True)))
documents = bent_bytes(json_values.map(msgspec.json.encode)) | raw_bytes


@st.composite
def payloads(draw: st.DrawFn) -> tuple[Signature, Body]:
    """Return a signature, and a payload for it that may have suffered."""
    signature, example = draw(pairs)
    data = draw(bent_bytes(st.just(msgspec.json.encode(example))) | documents)
    return signature, Body(data, draw(st.sampled_from(Encoding)))


@st.composite
def calls(draw: st.DrawFn) -> tuple[Signature, tuple[Any, ...], dict[str, Any]]:
    """Return a signature, and arguments for it of which some may be wrong."""
    signature, example = draw(pairs)
    names = [p.name for p in signature.parameters if p.name in example and p.name != "rest"]
    given = {name: example[name] for name in names}
    if "last" in given:
        given["last"] = draw(st.binary(max_size=3))
    if "data" in given:
        given["data"] = draw(st.binary(max_size=9))
    for name in draw(st.sets(st.sampled_from([*names, "é"]), max_size=1)):
        given[name] = draw(objects | json_values)
    split = draw(st.integers(0, len(given)))
    args = tuple(list(given.values())[:split])
    return signature, args, dict(list(given.items())[split:])


texts = st.text(max_size=5)
failures = st.builds(Failure, st.sampled_from(Category), texts, st.none() | texts)


def stored(values: SearchStrategy[Any]) -> SearchStrategy[str]:
    """Return what a damaged table may hold: text, which no store keeps unless it is Unicode."""
    return bent(values.map(encode_json)).map(lambda text: text.encode(errors="replace").decode())


def _check_encoded(given: Any, body: Body) -> None:
    assert decode(body) == given


def _check_call(given: tuple[Signature, tuple[Any, ...], dict[str, Any]], body: Body) -> None:
    """What a caller can submit, a worker can read, and it says the same again."""
    signature, _, _ = given
    args, kwargs = signature.decode(body)
    assert signature.encode(tuple(args), kwargs) == body


def _check_any_encoded(_: Any, body: Body) -> None:
    decode(body)


def _classified(given: tuple[str, Any]) -> Any:
    message, extra = given
    for error in (
        ValueError(message),
        TemporaryError(message, retry_after=extra),
        PermanentError(message, code=extra),
        Snooze(extra),
        _Mute(),
    ):
        yield classify(error)


def _is_shown(value: Any) -> bool:
    """Tell whether a handler could have put *value* into a message; not 5,000 digits of it."""
    return not shown(value).endswith("too large to show>")


class _Mute(Exception):
    """It cannot even say its name."""

    def __str__(self) -> str:
        raise RuntimeError


def _check_classified(_: Any, outcomes: Any) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Failed):
            failure = outcome.failure
            assert 0 < len(failure.message) <= MESSAGE_LENGTH_MAX
            assert decode_failure(encode_failure(failure)) == failure
        else:
            assert isinstance(outcome, Snoozed)


PAYLOAD_TARGETS = (
    Target("payload, encoded", encode, json_values, (), _check_encoded),
    Target("payload, of anything", encode, objects, (InvalidPayloadError,), _check_any_encoded),
    Target(
        "payload, decoded",
        lambda data: decode(Body(data)),
        documents,
        (InvalidPayloadError,),
    ),
    Target("result", encode_result, objects, (PermanentError,), _check_any_encoded),
    Target(
        "arguments, encoded",
        lambda given: given[0].encode(given[1], given[2]),
        calls(),
        (InvalidPayloadError,),
        _check_call,
    ),
    Target(
        "arguments, decoded",
        lambda given: given[0].decode(given[1]),
        payloads(),
        (InvalidPayloadError, EncryptionError),
    ),
    Target(
        "raised by a handler",
        lambda given: list(_classified(given)),
        st.tuples(raw_text, objects.filter(_is_shown)),
        (),
        _check_classified,
    ),
    Target("stored failure", decode_failure, stored(failures)),
    Target(
        "stored progress",
        decode_progress,
        stored(st.builds(Progress, fraction=st.floats(0, 1), message=st.text())),
    ),
    Target("stored tags", readable_tags, stored(st.dictionaries(texts, texts))),
)

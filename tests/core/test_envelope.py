"""Envelopes: taken apart without a key, whatever the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.encryption import (
    PREFIX,
    TAMPERED,
    EncryptionKey,
    Envelope,
    Field,
    KeyRing,
    Owner,
    binding,
    bound,
    from_text,
    header,
    key_id_of,
    pack,
    parse,
    shown_envelope,
    shown_text,
    to_text,
    unreadable,
)
from fencepost.core.job.failure import classify
from fencepost.core.job.job import Body, Category, Encoding
from fencepost.core.job.outcome import Failed
from fencepost.core.values.payload import decode
from fencepost.core.values.signature import Signature
from fencepost.errors import MissingKeyError, TamperedError
from fencepost.worker import Context

ENVELOPE = Envelope("k1", b"n" * 12, b"s" * 20)
SEALED = Body(pack(ENVELOPE), Encoding.ENCRYPTED)

key_ids = st.text("abcXYZ019", min_size=1, max_size=64)
envelopes = st.builds(
    Envelope, key_ids, st.binary(min_size=12, max_size=12), st.binary(min_size=16, max_size=99)
)


@given(envelopes)
def test_what_was_packed_is_parsed(envelope: Envelope) -> None:
    data = pack(envelope)
    assert parse(data) == envelope
    assert from_text(to_text(data)) == data


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: pack(ENVELOPE)[:5] + data))
def test_anything_else_is_no_envelope_and_raises_nothing(data: bytes) -> None:
    envelope = parse(data)
    assert envelope is None or pack(envelope) == data


@given(st.text(max_size=60) | st.text(max_size=60).map(lambda text: PREFIX + text))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert from_text(text) is None
    assert shown_text(text) == text


def test_one_that_is_cut_is_no_envelope() -> None:
    data = pack(ENVELOPE)
    cuts = [parse(data[:length]) for length in range(len(data))]
    assert [cut for cut in cuts[:-4] if cut is not None] == []


owners = st.builds(Owner, st.uuids(version=4).map(str), st.text(), st.text(), st.none() | st.text())


@given(
    st.lists(
        st.tuples(key_ids, st.sampled_from(Field), owners), min_size=2, max_size=2, unique=True
    )
)
def test_two_places_are_never_bound_alike(places: list[tuple[str, Field, Owner]]) -> None:
    known = {(key_id, field, bound(field, owner)) for key_id, field, owner in places}
    found = {binding(header(key_id), field, owner) for key_id, field, owner in places}
    assert len(found) == len(known)


@pytest.mark.parametrize("field", Field)
def test_what_decides_what_runs_is_bound_to_all_of_its_job(field: Field) -> None:
    """Of a dead letter the key is not listed, and a delivery knows only the id of its job."""
    owner = Owner("id", "type", "queue", "key")
    others = {name: owner._replace(**{name: "x"}) for name in owner._fields}
    said = binding(header("k"), field, owner)
    told = {name for name, each in others.items() if binding(header("k"), field, each) != said}
    left_out = {Field.FAILURE: {"key"}, Field.PROGRESS: {"key"}}
    left_out[Field.CALLBACK] = {"type", "queue", "key"}
    assert told == set(owner._fields) - left_out.get(field, set())
    assert binding(header("k"), Field.RESULT, Owner("a", "b", "c", "")) != binding(
        header("k"), Field.RESULT, Owner("a", "b", "c")
    )


def test_what_cannot_be_read_says_with_which_key_it_could_be() -> None:
    assert shown_envelope(SEALED.data) == "encrypted (key k1)"
    assert shown_text(to_text(SEALED.data)) == "encrypted (key k1)"
    assert shown_envelope(TAMPERED.data) == "encrypted, and damaged"
    assert (key_id_of(SEALED), key_id_of(TAMPERED)) == ("k1", None)


def test_a_body_that_was_left_encrypted_is_missing_its_key_unless_the_key_was_there() -> None:
    ring = KeyRing((EncryptionKey("k1", b"1" * 32),))
    other = KeyRing((EncryptionKey("k2", b"2" * 32),))
    assert isinstance(unreadable(SEALED), MissingKeyError)
    assert isinstance(unreadable(SEALED, other), MissingKeyError)
    assert isinstance(unreadable(SEALED, ring), TamperedError)
    assert isinstance(unreadable(TAMPERED, other), TamperedError)


def test_to_decode_one_raises_and_names_the_key() -> None:
    def work(x: int) -> None: ...

    for read in (decode, Signature(work, Context).decode):
        with pytest.raises(MissingKeyError, match="'k1'") as caught:
            read(SEALED)
        assert caught.value.key_id == "k1"
        with pytest.raises(TamperedError):
            read(TAMPERED)


def test_a_missing_key_is_tried_again_and_a_damaged_body_is_not() -> None:
    """S1-80: the one is this worker's trouble, the other the job's."""
    missing, tampered = classify(MissingKeyError("k1")), classify(TamperedError())
    assert isinstance(missing, Failed)
    assert isinstance(tampered, Failed)
    assert (missing.failure.category, missing.failure.code) == (Category.SYSTEM, "key_missing")
    assert "'k1'" in missing.failure.message
    assert (tampered.failure.category, tampered.failure.code) == (Category.PERMANENT, "corrupt")

"""Job ids as text and bytes; attempt ids."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.clock import as_uuid4
from fencepost.core.values.names import attempt_id, id_bytes, id_text, previous_attempt_id
from fencepost.errors import JobNotFoundError

SIXTEEN = st.binary(min_size=16, max_size=16)
JOB = "c56a4180-65aa-42ec-a945-5fd21dec0538"


@given(SIXTEEN.map(as_uuid4))
def test_an_id_reads_as_the_standard_writes_it_and_back(raw: bytes) -> None:
    """S1-1, S1-3."""
    assert id_text(raw) == str(uuid.UUID(bytes=raw))
    assert id_bytes(id_text(raw)) == raw


def test_capital_letters_name_the_same_job() -> None:
    """S1-1: RFC 4122 asks readers to accept either case."""
    assert id_bytes(JOB.upper()) == id_bytes(JOB)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            JOB[:-1],
            JOB + "0",
            JOB + "\n",
            " " + JOB,
            JOB.replace("-", ""),
            "{" + JOB + "}",
        ),
        JOB.replace("-42ec", "-12ec"),  # version 1
        JOB.replace("-a945", "-c945"),  # another variant
        *(JOB[:-1] + "g", JOB[:-1] + "٣", JOB[:-1] + "İ", "\0" * 36, "\ud800"),
        *(None, 5, pytest.param(10**5_000, id="huge"), JOB.encode(), [], uuid.UUID(JOB)),
    ],
)
def test_what_cannot_be_an_id_is_a_job_that_does_not_exist(text: Any) -> None:
    """S1-1, S1-2: rather than an error of its own kind."""
    with pytest.raises(JobNotFoundError):
        id_bytes(text)


@given(st.text() | st.from_regex(r"[0-9a-f-]{36}", fullmatch=True))
def test_no_text_gives_anything_but_sixteen_bytes_or_not_found(text: str) -> None:
    """S1-1."""
    with suppress(JobNotFoundError):
        assert id_text(id_bytes(text)) == text.lower()


def test_each_attempt_has_an_id_and_names_the_one_before() -> None:
    """S1-78."""
    assert attempt_id(JOB, 1) == f"{JOB}.1"
    assert previous_attempt_id(JOB, 0) is None
    assert previous_attempt_id(JOB, 2) == attempt_id(JOB, 2)


@given(SIXTEEN, SIXTEEN, st.integers(1, 10**6), st.integers(1, 10**6))
def test_no_two_attempts_share_an_id(one: bytes, other: bytes, first: int, second: int) -> None:
    """S1-78."""
    same = attempt_id(id_text(one), first) == attempt_id(id_text(other), second)
    assert same == ((one, first) == (other, second))

"""For how long a payload has not been understood, told from the attempts at its job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fencepost import Context
from fencepost.core.job.failure import classify
from fencepost.core.job.job import Attempt, AttemptOutcome, Body, Category, Encoding, Failure
from fencepost.core.job.outcome import Failed, Unreadable
from fencepost.core.values.signature import Signature, UnreadPayload, read_arguments, with_past
from fencepost.errors import InvalidPayloadError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
UNREAD = Unreadable(Failure(Category.SYSTEM, "no"))
LETTERS = {
    "u": AttemptOutcome.UNREADABLE,
    "r": AttemptOutcome.RELEASED,
    "f": AttemptOutcome.FAILED,
    "s": AttemptOutcome.SNOOZED,
    "c": AttemptOutcome.CANCELLED,
    ".": AttemptOutcome.RUNNING,
}


def attempts(letters: str) -> list[Attempt]:
    """Return attempts that began a minute apart and took ten seconds each."""
    return [
        Attempt(
            id=str(number),
            job_id="j",
            previous_id=None,
            number=1,
            lease_version=number,
            worker="w",
            outcome=LETTERS[letter],
            started_at=NOON + timedelta(minutes=number),
            ended_at=None if letter == "." else NOON + timedelta(minutes=number, seconds=10),
        )
        for number, letter in enumerate(letters)
    ]


@pytest.mark.parametrize(
    ("letters", "returns", "waited"),
    [
        (".", 0, 0.0),
        ("f.", 0, 0.0),
        ("u.", 1, 50.0),
        ("uuu.", 3, 170.0),
        ("urru.", 2, 230.0),  # given back unrun in between: nobody has read it
        ("uur.", 2, 170.0),
        ("uuf.", 0, 0.0),  # failed for good, or tried by one who could read it
        ("uufu.", 1, 50.0),
        ("uusu.", 1, 50.0),  # its handler was called
        ("uucu.", 1, 50.0),
    ],
)
def test_it_counts_from_the_first_of_the_last_attempts_in_a_row(
    letters: str, returns: int, waited: float
) -> None:
    """C47."""
    seen = with_past(UNREAD, attempts(letters))
    assert (seen.returns, seen.waited, seen.failure) == (returns, waited, UNREAD.failure)


@pytest.mark.parametrize(
    ("payload", "is_skew"),
    [
        (Body(b'{"x": 1}'), True),
        (Body(b"7"), True),
        (Body(b"\xff\x00", Encoding.BINARY), True),
        (Body(b"{"), False),
        (Body(b'{"x": "\xff"}'), False),
    ],
)
def test_only_what_was_damaged_fails_at_once(payload: Body, is_skew: bool) -> None:
    """C47, S1-87: no version could read it."""

    def handler(y: int, z: int) -> None: ...

    with pytest.raises((UnreadPayload, InvalidPayloadError)) as caught:
        read_arguments(Signature(handler, Context), payload)
    outcome = classify(caught.value)
    assert isinstance(outcome, Unreadable) == is_skew
    assert isinstance(outcome, Failed) != is_skew


@pytest.mark.parametrize("nothing", [None, []])
def test_a_job_that_is_gone_says_nothing(nothing: list[Attempt] | None) -> None:
    assert with_past(UNREAD, nothing) == UNREAD

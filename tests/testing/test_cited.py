"""What a job waits for: each requirement of it is proved on every store, and says so."""

from __future__ import annotations

import re

import pytest

import conformance

NUMBERS = ("S1-37", *(f"S1-{number}" for number in range(60, 74)), "C26", "C28", "C29")


def cited() -> set[str]:
    """Return the numbers in the docstrings of the conformance suite's tests."""
    tests = [
        test
        for name in conformance.__all__
        for attribute, test in vars(getattr(conformance, name)).items()
        if attribute.startswith("test_")
    ]
    text = " ".join(test.__doc__ or "" for test in tests)
    return set(re.findall(r"\b(?:S\d+-\d+|C\d+)\b", text))


@pytest.mark.parametrize("number", NUMBERS)
def test_every_rule_of_waiting_is_proved_on_every_store(number: str) -> None:
    """S1-37, S1-60 to S1-73: AFTER, AFTER_ANY, chains, fan-out and fan-in."""
    assert number in cited()

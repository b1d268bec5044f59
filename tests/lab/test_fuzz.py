"""A share of the fuzzing, the inputs that it has found, and a test that it finds something."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from fencepost.core.job.job import Body
from fencepost.errors import ConfigurationError
from lab.fuzz.__main__ import main
from lab.fuzz.payload_targets import SIGNATURES
from lab.fuzz.registry import TARGETS
from lab.fuzz.store_targets import SECRET, password_of
from lab.fuzz.suite import Report, feed, run
from lab.fuzz.target import Target

SHARE = 30
"""Inputs for each parser: always the same ones, so that a build does not fail by chance."""
BY_NAME = {target.name: target for target in TARGETS}
DIGITS = "9" * 6_000
"""Python makes no number of more than 4,300 digits: int() raises ValueError."""
NESTED = "[" * 6_000
"""Deeper than the decoder's stack: it raises RecursionError."""
UNDECODED = "\udcff"
"""How Python shows a byte of argv or of the environment that is not UTF-8; it has no UTF-8 form."""

# What was raised instead of the documented error, or what else was wrong, when each was found.
FOUND: list[tuple[str, Any, str]] = [
    ("job id", DIGITS, "the whole text was repeated"),
    ("options of using()", {"run_at": 10**6_000}, "ValueError: a number that cannot be shown"),
    ("options of using()", {"retry": 10**6_000}, "ValueError: a number that cannot be shown"),
    ("arguments, decoded", (SIGNATURES[0], Body(f'{{"{DIGITS}":1}}'.encode())), "was repeated"),
    ("arguments, encoded", (SIGNATURES[0], (), {DIGITS: 1}), "was repeated"),
    ("store URL", "x" * 2_000, "the whole text was repeated"),
    ("store URL", f"me:{SECRET}@db/shop", "a password was shown, for want of a scheme"),
    (
        "PostgreSQL URL",
        f"postgresql:me:{SECRET}@db/shop",
        "a password was shown, for want of slashes",
    ),
    ("PostgreSQL URL", f"/me:{SECRET}@db//shop", "a password was shown, before the slashes"),
    ("PostgreSQL URL", f"postgresql://db:{DIGITS}/shop", "ValueError: too many digits"),
    ("PostgreSQL URL", f"postgresql://db/shop?pool_size={DIGITS}", "ValueError"),
    ("PostgreSQL URL", f"postgresql://{UNDECODED}", "UnicodeEncodeError"),
    ("PostgreSQL token", (f" 1.1.{'a' * 32}.{'b' * 12}", "b" * 36), "taken with a space"),
    ("SQLite token", "0x1.1.secret", "taken in another spelling"),
    ("token at the SQLite store", ("mutated", UNDECODED * 9, ""), "UnicodeEncodeError"),
    ("token at the SQLite store", ("mutated", " ", "x" * 36), "taken with a space in it"),
    ("--tag", "x" * 2_000, "the whole text was repeated"),
    ("--priority", DIGITS, "ValueError: too many digits"),
    ("--queue NAME=WEIGHT", f"mail={DIGITS}", "ValueError: too many digits"),
    ("--queue NAME=WEIGHT", "x=" * 2_000, "the whole text was repeated"),
    ("JSON of submit", NESTED, "RecursionError"),
    ("JSON of submit", f'"{UNDECODED}"', "UnicodeEncodeError"),
    ("MODULE:ATTRIBUTE", DIGITS, "the whole text was repeated"),
    ("MODULE:ATTRIBUTE", f"/{DIGITS}.py", "the whole text was repeated"),
    ("stored body, shown", Body(NESTED.encode()), "RecursionError"),
    ("stored body, shown", Body(b'"\xff"'), "UnicodeDecodeError"),
    ("URLs of move", ("http://[", "sqlite:///jobs.db"), "ValueError: Invalid IPv6 URL"),
    ("URLs of move", ("sqlite:///%00", "memory"), "ValueError: embedded null byte"),
    ("URL of migrate --roles", "http://[", "ValueError: Invalid IPv6 URL"),
    ("command line", ("submit --raw work", None, NESTED), "an internal error"),
    ("HTTP query", DIGITS, "the whole text was repeated"),
]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_parser_answers_with_a_value_or_with_its_own_error(name: str) -> None:
    report = Report()
    assert feed(BY_NAME[name], report, None, SHARE) is None
    assert report.inputs >= SHARE // 2


@pytest.mark.parametrize(("name", "given", "was"), FOUND)
def test_what_was_found_is_mended(name: str, given: Any, was: str) -> None:
    BY_NAME[name].examine(given)


def test_every_parser_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(TARGETS)


# The suite must be able to find something.


def broken(**changes: Any) -> Target:
    """Return a target whose parser is a number's, with something wrong about it."""
    given: dict[str, Any] = {"parse": int, "refusals": (ValueError,), "inputs": st.text("0a")}
    return Target("broken", **{**given, **changes})


def _refuse_at_length(text: str) -> None:
    raise ConfigurationError(f"{text}." * 1_998)


def _refuse_without_a_word(_: str) -> None:
    raise ConfigurationError


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (broken(refusals=(KeyError,)), "ValueError: invalid literal"),
        (broken(check=lambda given, parsed: _equal(str(parsed), given)), "AssertionError"),
        (broken(parse=_refuse_at_length, refusals=(ConfigurationError,)), "a refusal of 1,998"),
        (broken(parse=_refuse_without_a_word, refusals=(ConfigurationError,)), "says nothing"),
    ],
)
def test_what_is_wrong_with_a_parser_is_found(target: Target, error: str) -> None:
    report = Report()
    finding = feed(target, report, 7, 200)
    assert finding is not None
    assert error in finding.error
    again = feed(target, Report(), 7, 200)
    assert again == finding  # the seed tells it all


def _equal(one: str, other: str) -> None:
    assert one == other


def test_a_password_in_a_refusal_is_found() -> None:
    def refuse(url: str) -> None:
        raise ConfigurationError(url)

    target = broken(parse=refuse, refusals=(ConfigurationError,), hides=password_of)
    with pytest.raises(AssertionError, match="shows a password"):
        target.examine(f"//me:{SECRET}@h")


def test_a_parser_that_thinks_for_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.fuzz.target.SECONDS_MAX", -1.0)
    with pytest.raises(AssertionError, match=r"took \d"):
        broken().examine("0")


# Running.


def test_a_run_counts_what_it_fed() -> None:
    report = run(0, seed=3, parsers=["cursor", "priority"], size=40)
    assert (report.parsers, report.failures) == (2, [])
    assert report.inputs >= 60
    assert 0 < report.accepted < report.inputs


def test_the_command_line_runs_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0", "--round", "20", "--parser", "cursor"]) == 0
    assert "1 parsers" in capsys.readouterr().out
    assert main(["--list"]) == 0
    assert "cursor\n" in capsys.readouterr().out
    assert main(["--parser", "nothing"]) == 2

"""The mutants: every patch fits, and a handful is caught; `make mutants` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.mutants.catalogue import MUTANTS
from lab.mutants.child import Failure, Result
from lab.mutants.injection import PatchError, check, mutated
from lab.mutants.mutant import Mutant, Patch, Place
from lab.mutants.suite import Court, Row, Trial, Verdict, run
from lab.mutants.suites import NAMES, arguments

ANY = MUTANTS[0]


@pytest.mark.parametrize("each", MUTANTS, ids=lambda each: each.name)
def test_every_patch_fits_the_product(each: Mutant) -> None:
    """A product that has changed must not leave a mutant behind that does nothing."""
    check(each)


def test_there_are_enough_mutants_of_everything() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS) >= 30
    assert {each.place for each in MUTANTS} == set(Place)
    for each in MUTANTS:
        assert each.name.startswith(f"{each.place}-")
        assert each.about
        assert arguments(each, "conformance")


def test_every_test_that_a_mutant_names_is_there() -> None:
    import conformance

    for each in MUTANTS:
        for test in each.tests:
            path, _, name = test.rpartition("::")
            if not path:
                assert Path(test).is_file() or test in conformance.__all__, test
            elif name not in conformance.__all__:
                assert f"def {name}(" in Path(path).read_text(), test


@pytest.mark.parametrize("text", ["a b", "old old"])
def test_a_patch_whose_text_is_not_there_once_is_an_error(text: str) -> None:
    with pytest.raises(PatchError):
        mutated(text, Patch("somewhere", "old", "new"))


def test_a_patch_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(PatchError):
        mutated("old", Patch("somewhere", "old", "old"))


class Pretender(Court):
    """A court before which suites say what they are told to say."""

    def __init__(self, folder: Path, planted: Result | str, sound: Result | str) -> None:
        super().__init__(folder, None)
        self._planted = planted
        self._unspoilt = sound

    def _run(self, name: str, suite: str, command: tuple[str, ...]) -> Result | str:
        return self._planted if name else self._unspoilt


PASSED = Result(True, 1, [], [])
FAILED = Result(True, 1, [Failure("a test", "it is wrong")], [])


@pytest.mark.parametrize(
    ("planted", "sound", "verdict"),
    [
        (FAILED, PASSED, Verdict.CAUGHT),
        (PASSED, PASSED, Verdict.MISSED),
        (FAILED, FAILED, Verdict.INVALID),
        (FAILED, Result(True, 0, [], []), Verdict.INVALID),
        (FAILED, "it broke down", Verdict.INVALID),
        ("it broke down", PASSED, Verdict.INVALID),
        (Result(False, 1, [Failure("a test", "")], []), PASSED, Verdict.INVALID),
        (Result(True, 0, [], [Failure("a fixture", "")]), PASSED, Verdict.INVALID),
    ],
)
def test_only_a_test_that_fails_because_of_the_mutant_catches_it(
    tmp_path: Path, planted: Result | str, sound: Result | str, verdict: Verdict
) -> None:
    row = Pretender(tmp_path, planted, sound).judge(ANY, NAMES[:1], is_thorough=False)
    assert [trial.verdict for trial in row.trials] == [verdict]
    assert row.is_caught is (verdict is Verdict.CAUGHT)


def test_the_suites_are_asked_in_turn_until_one_catches_it(tmp_path: Path) -> None:
    missed = Pretender(tmp_path, PASSED, PASSED).judge(ANY, NAMES, is_thorough=False)
    assert [trial.suite for trial in missed.trials] == list(NAMES)
    caught = Pretender(tmp_path, FAILED, PASSED).judge(ANY, NAMES, is_thorough=False)
    assert [trial.suite for trial in caught.trials] == list(NAMES[:1])


def test_a_mutant_that_no_suite_caught_survives() -> None:
    row = Row("m", "", [Trial("a", Verdict.MISSED, 0.1), Trial("b", Verdict.INVALID, 0.1)])
    assert not row.is_caught


@pytest.mark.parametrize(
    "name",
    [
        "memory-operation-has-no-transaction",
        "sqlite-success-ignores-the-token",
        "worker-settles-once-only",
        "redis-commit-does-not-look-at-the-clock",
    ],
)
def test_a_planted_bug_is_caught(name: str, request: pytest.FixtureRequest) -> None:
    """By the tests that it names, whose soundness this very run of the suite shows."""
    if name.startswith(Place.REDIS):
        request.getfixturevalue("redis_url")  # or it is skipped
    (row,) = run([name], suites=["conformance"], is_trusting=True).rows
    assert [trial.verdict for trial in row.trials] == [Verdict.CAUGHT], row

"""The formal model: it holds in its smallest size, and spin finds what is planted in it."""

from __future__ import annotations

import pytest

from lab.formal.check import BUGS, LIVENESS, MODEL, SAFETY, SMALLEST, missing_tool, run

needs_spin = pytest.mark.skipif(bool(missing_tool()), reason=missing_tool() or "spin is there")


@needs_spin
def test_the_smallest_configuration_is_safe_and_every_job_ends() -> None:
    report = run([SMALLEST], bugs=())
    assert report.findings == []
    assert [(each.property, each.holds) for each in report.checks] == [
        (SAFETY, True),
        (LIVENESS, True),
    ]
    assert all(each.states > 1_000 for each in report.checks), "it has looked at something"


@needs_spin
@pytest.mark.parametrize("bug", ["BUG_TOKEN_IGNORED", "BUG_NOBODY_RECOVERS"])
def test_a_planted_bug_is_found(bug: str) -> None:
    """One of safety and one of liveness; ``make lab`` looks for them all."""
    report = run([], bugs=[bug])
    assert (report.bugs_found, report.findings) == ([bug], [])


def test_every_planted_bug_is_in_the_model() -> None:
    text = MODEL.read_text()
    assert all(bug in text for bug in BUGS)


def test_without_spin_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    report = run()
    assert report.checks == []
    assert report.lines() == ["skipped: spin is not installed (Debian: apt-get install spin)"]

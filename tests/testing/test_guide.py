"""The guide's tests are collected and pass, and what it prints is what the check says."""

from __future__ import annotations

import re

import pytest
from tests.documentation import DOCS, blocks_of
from tests.testing.test_plugin import run

pytest_plugins = ["pytester"]

GUIDE = DOCS / "testing.md"


def test_the_tests_in_the_guide_pass_under_pytest(pytester: pytest.Pytester) -> None:
    """As programs, which is how other blocks are checked, these would only be defined."""
    (block,) = [b for b in blocks_of(GUIDE) if b.is_run and "def test_" in b.source]
    pytester.makepyfile(test_shop=block.source)
    run(pytester).assert_outcomes(passed=2)


def test_the_report_in_the_guide_is_the_one_that_is_printed(pytester: pytest.Pytester) -> None:
    (block,) = [b for b in blocks_of(GUIDE) if "print(report)" in b.source]
    pytester.makepyfile(app=block.source)
    printed = pytester.runpython(pytester.path / "app.py").stdout.str()
    (shown,) = re.findall(r"```text\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert printed.strip() == shown.strip()

"""The threat model in SECURITY.md: every promise has its tests, and the requirements fit it."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from tests.documentation import DOCS, ROOT, broken_links

PAGE = ROOT / "SECURITY.md"
PROOF = re.compile(r"^\| (T\d+) \| `([^`:]+)::(test_\w+)` \|$", re.MULTILINE)

# Of each parser of bytes from the network, the oldest version without a known defect, and that.
PARSERS = {
    "h11": ("0.16.0", "malformed chunked bodies were accepted (CVE-2025-43859)"),
    "httptools": ("0.6.4", "lengths could be obscured in llhttp 8.1.1 (CVE-2024-27982)"),
    "httpcore": ("1.0.9", "the first that takes an h11 without the defect"),
    "starlette": ("0.49.1", "a Range took quadratic time (CVE-2025-62727)"),
}


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def rows() -> list[str]:
    return re.findall(r"^\| (T\d+) \| \*\*", text(), re.MULTILINE)


def proofs() -> list[tuple[str, str, str]]:
    return re.findall(PROOF, text())


def test_rows_are_numbered_without_a_gap() -> None:
    assert rows() == [f"T{number}" for number in range(1, len(rows()) + 1)]


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    assert {row for row, _, _ in proofs()} == set(rows())


def test_every_line_of_the_second_table_is_read() -> None:
    """A line that is written differently would be left out in silence."""
    _, _, table = text().partition("## What proves it")
    assert len(re.findall(r"^\| T", table, re.MULTILINE)) == len(proofs())


@pytest.mark.parametrize(("row", "path", "name"), proofs())
def test_a_test_that_is_named_exists(row: str, path: str, name: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"def {name}\(", source), f"{row}: {path} has no {name}"


def test_the_pages_lead_to_each_other() -> None:
    assert "(../SECURITY.md)" in (DOCS / "security.md").read_text(encoding="utf-8")
    assert broken_links(PAGE) == []


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_is_required_in_a_version_without_known_defects(name: str) -> None:
    """A pinned file protects us; only the package's own requirements protect who installs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        texts += extra
    wanted = [each for each in map(Requirement, texts) if each.name == name]
    assert wanted, f"{name} is not required"
    oldest, defect = PARSERS[name]
    for each in wanted:
        bounds = [Version(one.version) for one in each.specifier if one.operator == ">="]
        assert bounds, f"{each} has no lower bound: {defect}"
        assert max(bounds) >= Version(oldest), f"{each} takes versions with a defect: {defect}"

"""The menu of the site has every page once, and what its pages link to is there.

The site itself is built by ``make docs``, which installs more than the tests need.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.documentation import DOCS, anchors, broken_links, pages

from tools.site.nav import GENERATED, destination, nav_pages, read_nav
from tools.site.reference import REFERENCE

LISTED = nav_pages(read_nav())
BESIDE = [page for page in LISTED if page.startswith("../")]


def test_each_page_is_in_the_menu_once() -> None:
    written = [page for page in LISTED if not page.startswith(("../", GENERATED))]
    assert {page: count for page, count in Counter(LISTED).items() if count > 1} == {}
    assert set(written) == {path.relative_to(DOCS).as_posix() for path in pages()}


def test_each_page_that_is_made_from_the_code_is_in_the_menu() -> None:
    assert {page for page in LISTED if page.startswith(GENERATED)} == REFERENCE.keys()


def test_no_two_pages_of_the_site_have_one_place() -> None:
    places = Counter(destination(page) for page in LISTED)
    assert {place: count for place, count in places.items() if count > 1} == {}


@pytest.mark.parametrize("page", BESIDE)
def test_links_of_pages_beside_the_documentation_lead_somewhere(page: str) -> None:
    assert broken_links((DOCS / page).resolve()) == []


@pytest.mark.parametrize("page", [page for page in LISTED if not page.startswith(GENERATED)])
def test_a_page_has_one_title_and_headings_of_different_names(page: str) -> None:
    """Two headings of one name would have one anchor on a code host and another in the site."""
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = [line for line in _outside_code(text) if line.startswith("#")]
    assert [line for line in lines if line.startswith("# ")] == lines[:1]
    if page != "../CHANGELOG.md":
        assert len(anchors(DOCS / page)) == len(lines)


def test_a_page_may_be_missing_only_if_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# There")
    (tmp_path / "nav.toml").write_text(
        '[[section]]\ntitle = "All"\npages = ["there.md?", "later.md?", "*.md", "gone.md"]\n'
    )
    assert nav_pages(read_nav(tmp_path)) == ["there.md", "there.md", "gone.md"]


def _outside_code(text: str) -> list[str]:
    lines, is_code = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            lines.append(line)
    return lines

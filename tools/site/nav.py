"""The menu of the site, as ``docs/nav.toml`` has it: which pages there are, and in what order."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
GENERATED = "reference/"
"""Pages in this folder are made from the code when the site is built."""


@dataclass(frozen=True)
class Section:
    """A heading of the menu, with its pages and then its sections."""

    title: str
    pages: tuple[str, ...]
    """Paths from ``docs/``; ``../`` leads to pages beside it."""
    sections: tuple[Section, ...]

    def all_pages(self) -> Iterator[str]:
        """Yield its pages, and those of its sections."""
        yield from self.pages
        for section in self.sections:
            yield from section.all_pages()


def read_nav(docs: Path = DOCS) -> list[Section]:
    """Return the sections of the menu.

    A ``*`` in a name stands for every page that fits. A page whose name ends with a ``?`` may be
    missing, and is then left out.
    """
    table = tomllib.loads((docs / "nav.toml").read_text(encoding="utf-8"))
    return [_section(each, docs) for each in table["section"]]


def nav_pages(sections: list[Section]) -> list[str]:
    """Return every page of the menu, in order."""
    return [page for section in sections for page in section.all_pages()]


def destination(page: str) -> str:
    """Return where a page of the menu stands in the site."""
    if page == "../README.md":
        return "index.md"
    if page == "README.md":
        return "overview.md"
    if page.startswith("../"):
        name = page.removeprefix("../").removesuffix(".md").removesuffix("/README")
        return f"project/{name.replace('/', '-').lower()}.md"
    return page.replace("README.md", "index.md")


def _section(table: dict[str, Any], docs: Path) -> Section:
    return Section(
        table["title"],
        tuple(page for entry in table.get("pages", ()) for page in _expanded(entry, docs)),
        tuple(_section(each, docs) for each in table.get("section", ())),
    )


def _expanded(entry: str, docs: Path) -> Iterator[str]:
    if "*" in entry:
        yield from sorted(path.relative_to(docs).as_posix() for path in docs.glob(entry))
    elif not entry.endswith("?"):
        yield entry
    elif (docs / entry[:-1]).exists():
        yield entry[:-1]

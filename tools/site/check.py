"""Checks a built site: each link leads somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHING = {"src", "srcset", "data", "poster"}
FETCHED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "manifest", "preconnect"}
IN_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^)\"'\s]+)")


@dataclass
class Page(HTMLParser):
    """What a page refers to, and what it can be referred to by."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    """What a browser fetches to show it."""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and the id of a tag."""
        values = {name: value or "" for name, value in attrs}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        self.fetched += [values[name] for name in FETCHING & values.keys()]
        if tag == "link" and FETCHED_LINKS & set(values.get("rel", "").split()):
            self.fetched.append(values.get("href", ""))
        elif tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "mermaid" in values.get("class", "").split():
            self.fetched.append("//a script that draws Mermaid diagrams")


def problems(site: Path) -> list[str]:
    """Return what is wrong with the site in a folder, one line each."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    found = [
        f"{path.relative_to(site)}: {problem}"
        for path, page in pages.items()
        if path.name != "404.html"  # its addresses begin with that of the server
        for problem in _of_page(path, page, pages)
    ]
    for path in sorted(site.rglob("*.css")):
        addresses = IN_STYLE.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: fetches {address}" for address in addresses]
    return found


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _of_page(path: Path, page: Page, pages: dict[Path, Page]) -> list[str]:
    found = []
    for address in page.fetched:
        parts = urlsplit(address)
        if parts.netloc:
            found.append(f"fetches {address}")
        elif parts.path and not (path.parent / unquote(parts.path)).exists():
            found.append(f"{address} is not there")
    for address in page.links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            found.append(f"{address} leads nowhere")
        elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
            found.append(f"{address} leads to no heading")
    return found

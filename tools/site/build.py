"""Brings the pages together in ``build/docs``, and lets Zensical make a site of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site import architecture, leases, lifecycle
from tools.site.check import problems
from tools.site.nav import DOCS, GENERATED, ROOT, Section, destination, nav_pages, read_nav
from tools.site.pages import Drawings, files_beside, plain_code, staged
from tools.site.reference import REFERENCE

HERE = Path(__file__).parent
WORK = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
DRAWINGS: Drawings = {
    "stateDiagram": lifecycle.drawing,
    "sequenceDiagram": leases.drawing,
    "flowchart": architecture.drawing,
}


def build() -> list[str]:
    """Make the site in ``build/site``; return what is wrong with it, one line each."""
    sections = read_nav()
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    write_pages(nav_pages(sections), WORK / "pages")
    template = (HERE / "zensical.toml").read_text(encoding="utf-8")
    config = WORK / "zensical.toml"
    config.write_text(template.replace("nav = []", f"nav = {_menu(sections)}"), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", config.name]
    done = subprocess.run(command, cwd=WORK, capture_output=True, text=True, timeout=600)
    if done.returncode:
        return [done.stdout or done.stderr, "Zensical refuses the pages in build/docs"]
    (WORK / "site").rename(SITE)
    return problems(SITE)


def write_pages(pages: list[str], folder: Path) -> None:
    """Write every page of the menu, and the pictures, into *folder*."""
    sources = {(DOCS / page).resolve(): page for page in pages if not page.startswith(GENERATED)}
    places = {source: destination(page) for source, page in sources.items()}
    places |= {picture: picture.relative_to(DOCS).as_posix() for picture in files_beside()}
    for source, place in places.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source in sources:
            text = staged(source.read_text(encoding="utf-8"), source, places, DRAWINGS)
            target.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(source, target)
    for page in pages:
        if page.startswith(GENERATED):
            target = folder / page
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(plain_code(REFERENCE[page]()), encoding="utf-8")
    shutil.copyfile(HERE / "site.css", folder / "site.css")


def _menu(sections: list[Section]) -> str:
    """Return the menu as a value of TOML."""
    entries = [_entry(section) for section in sections if any(section.all_pages())]
    return f"[{', '.join(entries)}]"


def _entry(section: Section) -> str:
    entries = [json.dumps(destination(page)) for page in section.pages]
    entries += [_entry(each) for each in section.sections if any(each.all_pages())]
    if not section.sections and len(entries) == 1:
        return f"{{ {json.dumps(section.title)} = {entries[0]} }}"
    return f"{{ {json.dumps(section.title)} = [{', '.join(entries)}] }}"

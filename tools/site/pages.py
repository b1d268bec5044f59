"""Copies a page for the site: its links lead to pages of the site, its diagrams are drawings.

On a code host, the same files are read as they are. Three things differ here: comments for tests
are left out, links to files that are no pages become plain text, and a Mermaid diagram, for which
a browser would need a large script, is replaced by a drawing of ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.site.nav import DOCS

FENCE = re.compile(r"^( *)```.*?^\1```[ \t]*$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*\n|[ \t]*<!--.*?-->", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
MERMAID = re.compile(r"^```mermaid\n(\w+)", re.MULTILINE)
TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
LIST = re.compile(r"^(?![ \t]*(?:[-*]|\d+\.) |\s*$|\||#)(.+)\n(?=(?:[-*]|1\.) )", re.MULTILINE)

Drawings = Mapping[str, Callable[[str], str]]
"""By the first word of a diagram: what draws it."""


def staged(text: str, source: Path, places: Mapping[Path, str], drawings: Drawings) -> str:
    """Return the *text* of the page at *source* as the site has it.

    *places* says where each file stands in the site; *source* is one of them.
    """
    here = places[source]

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match[0]
        name, _, anchor = target.partition("#")
        file = (source.parent / name).resolve()
        if file not in places:
            return label
        relative = os.path.relpath(places[file], os.path.dirname(here) or ".")
        return f"{image}[{label}]({relative}{'#' * bool(anchor)}{anchor})"

    def prose(part: str) -> str:
        return LIST.sub(r"\1\n\n", LINK.sub(link, COMMENT.sub("", part)))

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts.append(prose(text[end : fence.start()]))
        diagram = MERMAID.match(fence[0])
        parts.append(drawings[diagram[1]](_inside(fence[0])) if diagram else fence[0])
        end = fence.end()
    return plain_code("".join([*parts, prose(text[end:])]))


def plain_code(text: str) -> str:
    """Return a page whose code in tables has no escaped ``|``: here it would show the backslash."""

    def row(match: re.Match[str]) -> str:
        return CODE.sub(lambda code: code[0].replace("\\|", "|"), match[0])

    return TABLE_ROW.sub(row, text)


def files_beside(docs: Path = DOCS) -> list[Path]:
    """Return the pictures of the documentation."""
    return sorted(path for path in docs.rglob("*") if path.suffix in {".png", ".svg"})


def _inside(fence: str) -> str:
    """Return what stands between the first and the last line of a block."""
    return "\n".join(fence.rstrip().splitlines()[1:-1])

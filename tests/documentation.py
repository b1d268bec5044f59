"""Reading Markdown as the tests do: its Python blocks, its links, its tables.

Each ```python block is a program of its own. A block with ``<!-- not run: reason -->`` on the line
before it is only compiled.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"

NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
FENCED = re.compile(r"^```.*?^```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SECONDS_MAX = 90  # less than the time a test is given, so that the output is shown
SETTINGS = ("FENCEPOST_", "DATABASE_URL")


@dataclass(frozen=True)
class Block:
    """One fenced block of Python, and the line it starts on."""

    line: int
    source: str
    is_run: bool


def blocks(text: str) -> list[Block]:
    """Return the Python blocks of a Markdown *text*, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    start: int | None = None
    for index, line in enumerate(lines):
        if start is None and re.fullmatch(r"```python\s*", line):
            start = index
        elif start is not None and line.rstrip() == "```":
            is_run = start == 0 or not NOT_RUN.fullmatch(lines[start - 1].strip())
            source = "\n".join(lines[start + 1 : index]) + "\n"
            found.append(Block(line=start + 1, source=source, is_run=is_run))
            start = None
    assert start is None, f"the block at line {start} has no end"
    return found


def blocks_of(path: Path) -> list[Block]:
    """Return the Python blocks of the file at *path*; none if there is no such file."""
    return blocks(path.read_text(encoding="utf-8")) if path.exists() else []


def check_block(block: Block, name: str, folder: Path) -> None:
    """Run *block* as ``app.py`` in the empty *folder*, with no settings in the environment."""
    compile(block.source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not block.is_run:
        return
    program = folder / "app.py"
    program.write_text(block.source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, f"{name} failed:\n{done.stdout}"


def pages() -> list[Path]:
    """Return every Markdown file of the documentation."""
    return sorted(DOCS.rglob("*.md"))


def broken_links(path: Path) -> list[str]:
    """Return the relative links of a page that lead to no file or to no heading."""
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    return broken


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings have, as code hosts make them."""
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.strip()).lower().replace(" ", "-") for heading in headings
    }


def table_rows(text: str, first_column: str) -> list[list[str]]:
    """Return the body of the table whose heading begins with *first_column*, cell by cell."""
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    rows = []
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows

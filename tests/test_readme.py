"""What the README shows, works.

Each ```python block runs as a program of its own, in an empty directory, with no settings in the
environment. A block with ``<!-- not run: reason -->`` on the line before it is only compiled.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
SECONDS_MAX = 90  # less than the time a test is given, so that the output is shown


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


BLOCKS = blocks(README.read_text(encoding="utf-8")) if README.exists() else []


def test_the_readme_shows_python_that_runs() -> None:
    assert README.exists(), "README.md is missing"
    assert any(block.is_run for block in BLOCKS), "README.md has no ```python block that is run"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line-{block.line}")
def test_a_block_works(block: Block, tmp_path: Path) -> None:
    name = f"README.md:{block.line}"
    compile(block.source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not block.is_run:
        return
    program = tmp_path / "app.py"
    program.write_text(block.source, encoding="utf-8")
    settings = ("FENCEPOST_", "DATABASE_URL")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith(settings)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, f"{name} failed:\n{done.stdout}"


def test_blocks_are_found_and_marked() -> None:
    """The reader of this file is tested too: a block it overlooks would never fail."""
    run = "```python\na\n```\n"
    not_run = "<!-- not run: needs a server -->\n```python\nb\n```\n"
    other = "```sh\nc\n```\n"
    assert blocks(f"{run}text\n{not_run}{other}") == [Block(1, "a\n", True), Block(6, "b\n", False)]

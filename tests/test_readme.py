"""What the README shows, works.

Each ```python block runs as a program of its own, in an empty directory, with no settings in the
environment. ``tests.documentation`` says how.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.documentation import README, Block, blocks, blocks_of, broken_links, check_block

BLOCKS = blocks_of(README)


def test_the_readme_shows_python_that_runs() -> None:
    assert README.exists(), "README.md is missing"
    assert any(block.is_run for block in BLOCKS), "README.md has no ```python block that is run"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line-{block.line}")
def test_a_block_works(block: Block, tmp_path: Path) -> None:
    check_block(block, f"README.md:{block.line}", tmp_path)


def test_links_lead_somewhere() -> None:
    assert broken_links(README) == []


def test_blocks_are_found_and_marked() -> None:
    """The reader of this file is tested too: a block it overlooks would never fail."""
    run = "```python\na\n```\n"
    not_run = "<!-- not run: needs a server -->\n```python\nb\n```\n"
    other = "```sh\nc\n```\n"
    assert blocks(f"{run}text\n{not_run}{other}") == [Block(1, "a\n", True), Block(6, "b\n", False)]

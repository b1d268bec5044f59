"""The page on metrics lists them all, as they are."""

from __future__ import annotations

from pathlib import Path

from fencepost.observe.metrics import FAMILIES, Family
from fencepost.store.wrappers.transitions import LABELS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text()


def row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


def test_the_table_is_that_of_the_code() -> None:
    listed = [line for line in PAGE.splitlines() if line.startswith("| `fencepost_")]
    assert listed == [row(family) for family in FAMILIES]


def test_every_event_is_explained() -> None:
    for label in LABELS:
        assert f"`{label}`" in PAGE

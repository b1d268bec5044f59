"""What the documentation says, holds: its programs run, its links lead somewhere, its tables agree.

The requirements that call for a sentence in the documentation are in ``test_documented.py``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.documentation import (
    DOCS,
    README,
    ROOT,
    Block,
    blocks_of,
    broken_links,
    check_block,
    pages,
    table_rows,
)

import fencepost
from fencepost.core.job.lifecycle import COARSE, LIVE, TRANSITIONS, State
from fencepost.core.job.policy import Priority
from fencepost.observe import names
from fencepost.store.interface.store import Facets

PAGES = pages()
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
EVERYTHING = "\n".join(TEXTS.values())
PROGRAMS = [
    pytest.param(path, block, id=f"{path.relative_to(DOCS)}:{block.line}")
    for path in PAGES
    for block in blocks_of(path)
]

EDGE = re.compile(r"^ *(\w+) --> (\w+): (.+)$", re.MULTILINE)

Edge = tuple[str, str, str]


def page(name: str) -> str:
    return TEXTS[DOCS / name]


def edges() -> set[Edge]:
    """Return the one table of transitions as (state, event, next state)."""
    return {
        (state.value, event.value, following.value)
        for state, events in TRANSITIONS.items()
        for event, following in events.items()
    }


@pytest.mark.parametrize(("path", "block"), PROGRAMS)
def test_a_block_works(path: Path, block: Block, tmp_path: Path) -> None:
    check_block(block, f"{path.relative_to(ROOT)}:{block.line}", tmp_path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path) == []


def test_every_page_is_in_an_index() -> None:
    indexed = page("README.md") + page("decisions/README.md")
    missing = [p.name for p in PAGES if p.name != "README.md" and f"{p.name})" not in indexed]
    assert missing == []


def test_the_table_of_states_is_the_table_of_transitions() -> None:
    rows = table_rows(page("concepts.md"), "from")
    shown = {(state.strip("`"), event, following.strip("`")) for state, event, following in rows}
    assert len(rows) == len(shown)
    assert shown == edges()


def test_the_diagram_is_the_table_of_transitions() -> None:
    """In the diagram, `live` stands for each live state, which spares ten arrows."""
    (diagram,) = re.findall(r"```mermaid\n(stateDiagram.*?)```", page("concepts.md"), re.DOTALL)
    shown: set[Edge] = set()
    for state, following, event in EDGE.findall(diagram):
        origins = [each.value for each in LIVE] if state == "live" else [state]
        shown |= {(origin, event.strip(), following) for origin in origins}
    assert shown == edges()


def test_the_states_and_the_coarse_view_agree() -> None:
    rows = table_rows(page("concepts.md"), "state")
    shown = {row[0].strip("`"): row[1].strip("`") for row in rows}
    assert shown == {state.value: COARSE[state] for state in State}


def test_the_priorities_are_all_there_in_order() -> None:
    rows = table_rows(page("concepts.md"), "number")
    assert [(int(row[0]), row[1].strip("`")) for row in rows] == [
        (priority.value, priority.name) for priority in Priority
    ]


def test_every_event_and_counter_is_explained() -> None:
    known = {value for name, value in vars(names).items() if name.isupper()}
    explained = set(re.findall(r"^\| `(\w+(?:\.\w+)+)` \|", page("operating.md"), re.MULTILINE))
    assert known
    assert explained == known


def test_every_public_name_is_documented() -> None:
    public = vars(fencepost)["__all__"]
    missing = [name for name in public if not re.search(rf"\b{name}\b", EVERYTHING)]
    assert "App" in public
    assert missing == []


def test_the_tests_that_are_named_as_proof_exist() -> None:
    """A proof that was renamed or deleted is no proof."""
    sources = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "conformance").rglob("*.py")]
    defined = {
        name
        for path in sources
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }
    named = set(re.findall(r"`(test_\w+)`", EVERYTHING + README.read_text(encoding="utf-8")))
    assert named
    assert named - defined == set()


def test_the_files_that_are_named_exist() -> None:
    """Pages about the insides name files as `store/plan.py`, or as `tests/…` from the top."""
    package = ROOT / "src" / "fencepost"
    insides = page("internals/invariants.md") + page("internals/architecture.md")
    named = set(re.findall(r"`([\w/]+\.(?:py|sql|lua))`", insides))
    assert named
    missing = {n for n in named if not (package / n).exists() and not (ROOT / n).exists()}
    assert missing == set()


def test_what_is_named_in_a_file_is_in_it() -> None:
    """`core/job/outcome.py` (`decide`): a function that was moved or renamed is not found there."""
    package = ROOT / "src" / "fencepost"
    pattern = re.compile(r"`([\w/]+\.(?:py|sql|lua))` \(((?:`\w+`(?:, | and )?)+)\)")
    found = [
        (file, name)
        for file, names_ in pattern.findall(page("internals/architecture.md"))
        for name in re.findall(r"`(\w+)`", names_)
    ]
    assert len(found) > 10
    texts = {file: (package / file).read_text(encoding="utf-8") for file, _ in found}
    assert [each for each in found if not re.search(rf"\b{each[1]}\b", texts[each[0]])] == []


def section(heading: str) -> str:
    """Return a section of the page about the architecture."""
    text = page("internals/architecture.md")
    match = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, heading
    return match[1]


def test_the_tree_is_the_one_on_disk() -> None:
    """What the tree names exists; and it names every folder at the top of the package."""
    (tree,) = re.findall(r"```text\n(.*?)```", section("The tree"), re.DOTALL)
    package = ROOT / "src" / "fencepost"
    named = set(re.findall(r"\b(\w+(?:/|\.py))", tree)) - {"src/", "fencepost/"}
    known = {f"{path.name}/" if path.is_dir() else path.name for path in package.rglob("*")}
    known |= {f"{path.name}/" for path in ROOT.iterdir() if path.is_dir()}
    assert named - known == set()
    folders = {f"{p.name}/" for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders - named == set()


def test_the_facets_are_those_of_a_store() -> None:
    """The table names every facet with its operations: nine at most."""
    rows = table_rows(section("The seam"), "facet")
    shown = {name.strip("`"): re.findall(r"\w+", text.partition(";")[0]) for name, text in rows}
    declared = {name: set(kind.operations) for name, kind in get_type_hints(Facets).items()}
    assert {name: set(operations) for name, operations in shown.items()} == declared
    assert max(map(len, declared.values())) <= 9


def test_the_way_of_a_job_is_at_most_fifteen_files() -> None:
    """One file a step, in order; the notes behind the list name others."""
    steps = re.findall(r"^(\d+)\. `([\w/]+\.py)` ", section("The way of a job"), re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 10 <= len({name for _, name in steps}) == len(steps) <= 15


def test_where_to_change_something_names_files_that_exist() -> None:
    """Every common change is a numbered list, each step of which names a file or a folder."""
    parts = re.split(r"^\*\*a new ", section("Where do I change …"), flags=re.MULTILINE)[1:]
    assert len(parts) >= 10
    package = ROOT / "src" / "fencepost"
    for part in parts:
        steps = re.split(r"^\d+\. ", part, flags=re.MULTILINE)[1:]
        assert len(steps) >= 2, part
        for step in steps:
            named = re.findall(r"`([\w/]+(?:\.(?:py|sql|lua|md)|/))`", step)
            assert named or "`make " in step, step
            missing = [n for n in named if not (package / n).exists() and not (ROOT / n).exists()]
            assert missing == [], step


def test_a_new_limit_per_type_changes_at_most_fifteen_files() -> None:
    """Everything else passes the limits of a type on as one value."""
    _, after = section("Where do I change …").split("**a new limit per type**")
    part = after[after.index("\n") : after.index("These are all")]
    named = re.findall(r"`([\w/]+\.(?:py|sql|lua|md))`", part)
    assert 8 <= len(set(named)) == len(named) <= 15


def test_invariants_are_numbered_without_a_gap() -> None:
    numbers = re.findall(r"^## INV-(\d+)", page("internals/invariants.md"), re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 10

"""Pages of the site: copied with their links, drawn from tables, and checked when built."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from tests.documentation import DOCS

from fencepost.core.job.lifecycle import TRANSITIONS, Event, State
from tools.site import architecture, leases, lifecycle
from tools.site.check import problems
from tools.site.pages import plain_code, staged

LABEL = re.compile(r"<text[^>]*>([^<]*)</text>")
DIAGRAM = re.compile(r"```mermaid\n(\w+.*?)\n```", re.DOTALL)


def labels(drawing: str) -> list[str]:
    return [unescape(words) for words in LABEL.findall(drawing)]


def test_the_lifecycle_shows_every_state_and_every_event() -> None:
    shown = labels(lifecycle.drawing())
    assert {state.value for state in State} < set(shown)
    events = {label.split(" → ")[0] for label in shown} - {state.value for state in State}
    assert events == {event.value for event in Event} | {"live"}


def test_a_transition_without_a_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {**TRANSITIONS[State.COMPLETED], Event.RETRY: State.RETRYING}
    monkeypatch.setitem(TRANSITIONS, State.COMPLETED, more)
    with pytest.raises(LookupError, match="completed"):
        lifecycle.drawing()


@pytest.mark.parametrize("page", ["concepts.md", "internals/architecture.md"])
def test_each_diagram_can_be_drawn(page: str) -> None:
    diagrams = DIAGRAM.findall((DOCS / page).read_text(encoding="utf-8"))
    assert diagrams
    draw: dict[str, Callable[[str], str]] = {
        "stateDiagram": lifecycle.drawing,
        "sequenceDiagram": leases.drawing,
        "flowchart": architecture.drawing,
    }
    for diagram in diagrams:
        kind = re.match(r"\w+", diagram)
        assert kind
        assert "<svg" in draw[kind[0]](diagram)


def test_a_sequence_is_drawn_line_by_line() -> None:
    drawn = leases.drawing(
        "sequenceDiagram\n participant a as A\n participant b\n a->>b: claim\n a--xb: settle"
    )
    assert labels(drawn) == ["A", "b", "claim", "settle"]
    assert drawn.count('class="arrow refused"') == 1
    with pytest.raises(ValueError, match="loop"):
        leases.drawing("sequenceDiagram\n loop forever")


def test_a_page_is_copied_with_links_to_the_site_and_without_comments(tmp_path: Path) -> None:
    source, other, picture = (tmp_path / name for name in ("a/page.md", "b.md", "c.png"))
    places = {source: "guides/page.md", other: "project/b.md", picture: "images/c.png"}
    text = (
        "See [other](../b.md#there), [code](../src/x.py), [web](https://example.com), [here](#x).\n"
        "<!-- S0-1 -->\n![picture](../c.png) <!-- S0-2 -->\nIntroduces:\n- an item\n\n"
        "```text\n[kept](../b.md)\n```\n"
    )
    assert staged(text, source, places, {}) == (
        "See [other](../project/b.md#there), code, [web](https://example.com), [here](#x).\n"
        "![picture](../images/c.png)\nIntroduces:\n\n- an item\n\n"
        "```text\n[kept](../b.md)\n```\n"
    )


def test_code_in_tables_shows_no_backslash() -> None:
    assert plain_code("| `a \\| b` | c \\| d |\n`a \\| b`") == "| `a | b` | c \\| d |\n`a \\| b`"


def test_what_is_wrong_with_a_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h1 id="top">B</h1>')
    (tmp_path / "site.css").write_text("a { background: url(https://example.com/a.png) }")
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="site.css"><script src="https://example.com/a.js"></script>'
        '<img src="gone.png"><a href="b.html#top">1</a><a href="b.html#gone">2</a>'
        '<a href="gone.html">3</a><a href="https://example.com">4</a><pre class="mermaid"></pre>'
    )
    assert problems(tmp_path) == [
        "a.html: fetches https://example.com/a.js",
        "a.html: gone.png is not there",
        "a.html: fetches //a script that draws Mermaid diagrams",
        "a.html: b.html#gone leads to no heading",
        "a.html: gone.html leads nowhere",
        "site.css: fetches https://example.com/a.png",
    ]

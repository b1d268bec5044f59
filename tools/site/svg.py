"""The few shapes that the drawings are made of.

A drawing is part of its page, so that its colours follow the page's: ``site.css`` has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

Point = tuple[float, float]
NODE_HEIGHT = 36
ROUND = 8


@dataclass(frozen=True)
class Node:
    """A box with a name, by its centre."""

    x: float
    y: float
    width: float = 116


@dataclass(frozen=True)
class Route:
    """The way of an arrow, and where its label stands."""

    points: tuple[Point, ...]
    label: Point
    anchor: str = "middle"


def figure(width: float, height: float, title: str, shapes: list[str]) -> str:
    """Return a drawing as a block of HTML; *title* is what a screen reader says."""
    marker = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="tip" d="M0,0 L8,4 L0,8 z"/></marker>'
    )
    body = "\n".join(shapes)
    return (
        f'<figure class="drawing"><svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'style="min-width: {width * 0.6:g}px" aria-label="{escape(title)}">\n'
        f"<defs>{marker}</defs>\n{body}\n</svg></figure>\n"
    )


def node(name: str, at: Node, kind: str = "") -> str:
    """Return a box with a name; *kind* is one of the classes of ``site.css``."""
    left, top = at.x - at.width / 2, at.y - NODE_HEIGHT / 2
    return (
        f'<rect class="node {kind}" x="{left:g}" y="{top:g}" width="{at.width:g}" '
        f'height="{NODE_HEIGHT}" rx="{ROUND}"/>' + text(name, (at.x, at.y + 5), kind="name")
    )


def text(words: str, at: Point, *, anchor: str = "middle", kind: str = "label") -> str:
    """Return words on one line."""
    return (
        f'<text class="{kind}" x="{at[0]:g}" y="{at[1]:g}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def arrow(points: tuple[Point, ...], kind: str = "") -> str:
    """Return an arrow through the points, with round corners."""
    steps = [f"M{points[0][0]:g},{points[0][1]:g}"]
    for (before, corner), (_, after) in pairwise(pairwise(points)):
        start, end = _towards(corner, before), _towards(corner, after)
        steps.append(
            f"L{start[0]:g},{start[1]:g} Q{corner[0]:g},{corner[1]:g} {end[0]:g},{end[1]:g}"
        )
    steps.append(f"L{points[-1][0]:g},{points[-1][1]:g}")
    return f'<path class="arrow {kind}" d="{" ".join(steps)}" marker-end="url(#tip)"/>'


def labelled(route: Route, *lines: str) -> str:
    """Return an arrow with its label, one line below the other."""
    shapes = [arrow(route.points)]
    for index, line in enumerate(lines):
        at = (route.label[0], route.label[1] + 15 * index)
        shapes.append(text(line, at, anchor=route.anchor))
    return "\n".join(shapes)


def _towards(corner: Point, other: Point) -> Point:
    """Return the point on the way from *corner* to *other* where the curve ends."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = (dx * dx + dy * dy) ** 0.5
    reach = min(ROUND, length / 2) / length
    return (corner[0] + dx * reach, corner[1] + dy * reach)

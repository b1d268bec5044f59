"""A Mermaid sequence diagram as a drawing: who says what to whom, from top to bottom.

It knows as much of the notation as the pages use: ``participant``, arrows with ``->>``, refused
ones with ``--x``, and ``Note over``.
"""

from __future__ import annotations

import re

from tools.site.svg import NODE_HEIGHT, Node, arrow, figure, node, text

PARTICIPANT = re.compile(r"participant (\w+)(?: as (.+))?")
MESSAGE = re.compile(r"(\w+)(->>|--x)(\w+): (.+)")
NOTE = re.compile(r"Note over (\w+)(?:, *(\w+))?: (.+)")
GAP, STEP, TOP = 270, 44, 84


def drawing(diagram: str) -> str:
    """Return the drawing of a sequence; raise ValueError for a line that it does not know."""
    places: dict[str, float] = {}
    names: dict[str, str] = {}
    shapes: list[str] = []
    y = TOP
    for line in filter(None, map(str.strip, diagram.splitlines()[1:])):
        if found := PARTICIPANT.fullmatch(line):
            places[found[1]] = 130 + GAP * len(places)
            names[found[1]] = found[2] or found[1]
        elif found := MESSAGE.fullmatch(line):
            shapes += _message(places[found[1]], places[found[3]], y, found[4], found[2] == "--x")
            y += STEP
        elif found := NOTE.fullmatch(line):
            shapes += _note(places[found[1]], places[found[2] or found[1]], y, found[3])
            y += STEP
        else:
            raise ValueError(f"this line of a sequence is not known: {line}")
    heads = [node(names[name], Node(x, 30, 150), "live") for name, x in places.items()]
    lines = [
        f'<path class="lifeline" d="M{x:g},{30 + NODE_HEIGHT / 2:g} V{y:g}"/>'
        for x in places.values()
    ]
    width = 260 + GAP * (len(places) - 1)
    return figure(width, y + 10, ", ".join(names.values()), [*lines, *heads, *shapes])


def _message(start: float, end: float, y: float, words: str, is_refused: bool) -> list[str]:
    kind = "refused" if is_refused else ""
    stop = end + (3 if end < start else -3)
    return [
        arrow(((start, y), (stop, y)), kind),
        text(words, ((start + end) / 2, y - 7), kind=f"label {kind}"),
    ]


def _note(first: float, last: float, y: float, words: str) -> list[str]:
    left, right = min(first, last) - 120, max(first, last) + 120
    return [
        f'<rect class="note" x="{left:g}" y="{y - 22:g}" '
        f'width="{right - left:g}" height="30" rx="4"/>',
        text(words, ((left + right) / 2, y - 3)),
    ]

"""The way of a job through the code as a drawing, from the diagram of its page.

The places are chosen by hand; the arrows are those of the diagram.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tools.site.svg import Node, Route, figure, labelled, node

PLACES = {
    "caller": Node(70, 60, 100),
    "app": Node(230, 60, 100),
    "store": Node(400, 60, 120),
    "maintenance": Node(400, 220, 120),
    "fetcher": Node(570, 60, 100),
    "executor": Node(700, 60, 100),
    "attempt": Node(830, 60, 100),
    "handler": Node(960, 60, 100),
    "settler": Node(640, 150, 100),
    "heartbeater": Node(110, 150, 120),
}
ROUTES = {
    ("caller", "app"): Route(((120, 60), (179, 60)), (149, 52)),
    ("app", "store"): Route(((280, 60), (339, 60)), (309, 52)),
    ("store", "fetcher"): Route(((460, 60), (519, 60)), (489, 52)),
    ("fetcher", "executor"): Route(((620, 60), (649, 60)), (634, 52)),
    ("executor", "attempt"): Route(((750, 60), (779, 60)), (764, 52)),
    ("attempt", "handler"): Route(((880, 60), (909, 60)), (894, 52)),
    ("attempt", "settler"): Route(((830, 78), (830, 150), (691, 150)), (760, 143)),
    ("settler", "store"): Route(((590, 150), (430, 150), (430, 79)), (510, 143)),
    ("heartbeater", "store"): Route(((170, 150), (370, 150), (370, 79)), (270, 143)),
    ("maintenance", "store"): Route(((400, 202), (400, 79)), (408, 186), "start"),
}
EDGE = re.compile(r' (?:-- *"?([^">]*?)"? *)?--> ')


def drawing(diagram: str) -> str:
    """Return the drawing; raise LookupError if its arrows and their places differ."""
    arrows: dict[tuple[str, str], str] = {}
    for line in filter(None, map(str.strip, diagram.splitlines()[1:])):
        parts = EDGE.split(line)
        names = [re.sub(r"\W.*", "", name) for name in parts[::2]]
        arrows |= dict(zip(pairwise(names), parts[1::2], strict=True))
    if arrows.keys() != ROUTES.keys():
        raise LookupError(f"arrows and their places differ: {arrows.keys() ^ ROUTES.keys()}")
    shapes = [labelled(ROUTES[ends], words or "") for ends, words in arrows.items()]
    shapes += [node(name, place, "live") for name, place in PLACES.items()]
    return figure(1020, 250, "The way of a job through the code", shapes)

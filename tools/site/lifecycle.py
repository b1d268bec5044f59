"""The life of a job as a drawing, made from the table of transitions.

The places of states and arrows are chosen by hand; which arrows there are, and what they say, comes
from the table. An arrow without a place, or a place without an arrow, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.core.job.lifecycle import LIVE, TERMINAL, TRANSITIONS, Event, State
from tools.site.svg import Node, Route, figure, labelled, node, text

S = State
PLACES = {
    S.PENDING: Node(86, 190),
    S.DELAYED: Node(380, 80),
    S.SCHEDULED: Node(380, 190),
    S.RUNNING: Node(640, 190),
    S.RETRYING: Node(640, 310),
    S.FAILED: Node(930, 80),
    S.COMPLETED: Node(930, 190),
    S.DEAD_LETTER: Node(930, 310),
    S.CANCELLED: Node(930, 400),
}
ROUTES = {
    (S.PENDING, S.SCHEDULED): Route(((144, 190), (321, 190)), (232, 183)),
    (S.PENDING, S.DELAYED): Route(((130, 172), (321, 92)), (212, 126), "end"),
    (S.PENDING, S.FAILED): Route(((60, 172), (60, 34), (930, 34), (930, 61)), (150, 28)),
    (S.PENDING, S.DEAD_LETTER): Route(((60, 208), (60, 366), (900, 366), (900, 329)), (130, 360)),
    (S.DELAYED, S.SCHEDULED): Route(((364, 98), (364, 171)), (357, 132), "end"),
    (S.DELAYED, S.PENDING): Route(((322, 70), (90, 70), (90, 171)), (98, 64), "start"),
    (S.SCHEDULED, S.DELAYED): Route(((396, 172), (396, 99)), (404, 140), "start"),
    (S.SCHEDULED, S.RUNNING): Route(((438, 182), (581, 182)), (510, 175)),
    (S.RUNNING, S.SCHEDULED): Route(((582, 198), (439, 198)), (510, 214)),
    (S.RUNNING, S.DELAYED): Route(((620, 172), (620, 80), (439, 80)), (530, 73)),
    (S.RUNNING, S.FAILED): Route(((680, 172), (871, 88)), (766, 120), "end"),
    (S.RUNNING, S.COMPLETED): Route(((698, 190), (871, 190)), (800, 183)),
    (S.RUNNING, S.DEAD_LETTER): Route(((688, 208), (871, 296)), (800, 246), "start"),
    (S.RUNNING, S.RETRYING): Route(((640, 208), (640, 291)), (633, 254), "end"),
    (S.RETRYING, S.SCHEDULED): Route(((582, 302), (380, 302), (380, 209)), (388, 296), "start"),
    (S.RETRYING, S.PENDING): Route(((582, 320), (90, 320), (90, 209)), (98, 314), "start"),
    (S.RETRYING, S.DEAD_LETTER): Route(((698, 306), (871, 306)), (752, 300)),
}
LIVE_BOX = (16, 8, 706, 384)
FROM_LIVE = {
    S.DEAD_LETTER: Route(((722, 340), (852, 340), (852, 318), (871, 318)), (788, 334)),
    S.CANCELLED: Route(((722, 384), (752, 400), (871, 400)), (812, 394)),
}
REOPENED = Route(((1004, 440), (1004, 470), (380, 470), (380, 393)), (392, 424), "start")


def drawing(_diagram: str = "") -> str:
    """Return the nine states and every transition."""
    left, top, width, height = LIVE_BOX
    shapes = [
        f'<rect class="group" x="{left}" y="{top}" width="{width}" height="{height}" rx="12"/>',
        text("live", (left + 14, top + 18), anchor="start", kind="name"),
    ]
    of_each = _of_all(LIVE)
    by_hand = _of_all(TERMINAL - {S.COMPLETED})
    shapes += [labelled(FROM_LIVE[state], *events) for state, events in _by_end(of_each.items())]
    shapes += _reopened([f"{event} → {state}" for event, state in by_hand.items()])
    arrows = {
        (state, following): events
        for state, table in TRANSITIONS.items()
        for following, events in _by_end(table.items() - of_each.items() - by_hand.items())
    }
    if arrows.keys() != ROUTES.keys():
        raise LookupError(f"arrows and their places differ: {arrows.keys() ^ ROUTES.keys()}")
    shapes += [labelled(ROUTES[ends], *events) for ends, events in arrows.items()]
    for state, place in PLACES.items():
        shapes.append(node(state.value, place, "terminal" if state.is_terminal else "live"))
    return figure(1020, 484, "The states of a job, and every transition between them", shapes)


def _of_all(states: Iterable[State]) -> dict[Event, State]:
    """Return the transitions that all of these states have."""
    first, *others = (TRANSITIONS[state].items() for state in sorted(states))
    return {event: state for event, state in first if all((event, state) in o for o in others)}


def _by_end(transitions: Iterable[tuple[Event, State]]) -> list[tuple[State, list[str]]]:
    """Return the events that lead to each state, in the order of their declaration."""
    ends: dict[State, list[str]] = {}
    for event, state in sorted(transitions, key=lambda each: list(Event).index(each[0])):
        ends.setdefault(state, []).append(event.value)
    return list(ends.items())


def _reopened(lines: list[str]) -> list[str]:
    """Return the way back from the states that an operator can reopen."""
    right = max(place.x for place in PLACES.values()) + 58
    first, *others = sorted(PLACES[state].y for state in TERMINAL - {S.COMPLETED})
    joints = [f'<path class="arrow" d="M{right:g},{first:g} H1004 V440"/>']
    joints += [f'<path class="arrow" d="M{right:g},{y:g} H1004"/>' for y in others]
    return [*joints, labelled(REOPENED, *lines)]

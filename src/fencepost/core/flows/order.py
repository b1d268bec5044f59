"""A graph in an order in which each job stands behind all that it waits for.

Everything that could never run is refused here, before a store hears of any of it: cycles, names
that nobody has, a way that is too long, a job that waits for too many (S1-65 to S1-68).
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from fencepost.core.bounds import NODE_LENGTH_MAX
from fencepost.core.display import shown
from fencepost.core.flows.dependencies import Dependencies, check_dependencies, check_depth
from fencepost.core.flows.graph import Graph, Node, mode_of
from fencepost.core.job.job import NewJob
from fencepost.core.values.ids import is_id
from fencepost.errors import (
    DependencyCycleError,
    DuplicateNodeError,
    InvalidJobError,
    UnknownDependencyError,
)

SHOWN_NODES = 10
"""How many nodes of a cycle its error names."""
NUMBER_ROOM = 8
"""Characters that a name leaves for the number behind it."""


def arrange(graph: Graph) -> list[NewJob]:
    """Return the jobs of *graph*, each behind what it waits for; named nodes say so.

    Raises a DependencyError of its kind, or InvalidJobError for two ways of waiting.
    """
    nodes = graph.nodes
    places = _places_by_name(nodes)
    waits = [_waits(node, places) for node in nodes]
    order = _order(nodes, waits)
    rank = {place: number for number, place in enumerate(order)}
    _check_depth(order, waits)
    return [_ranked(nodes[place], waits[place], rank) for place in order]


def names_for(jobs: Sequence[NewJob]) -> list[str]:
    """Return a name for each job: its own, else ``type``, ``type-2``, … if nobody has that."""
    return unique_names([(job.node, job.type) for job in jobs])


def unique_names(jobs: Sequence[tuple[str | None, str]]) -> list[str]:
    """Return a name for each (name or None, type); names that are given stay as they are."""
    taken = {name for name, _ in jobs if name is not None}
    counts: Counter[str] = Counter()
    return [_free(type_, taken, counts) if name is None else name for name, type_ in jobs]


def _free(type: str, taken: set[str], counts: Counter[str]) -> str:
    stem = type[: NODE_LENGTH_MAX - NUMBER_ROOM]
    while True:
        counts[stem] += 1
        name = stem if counts[stem] == 1 else f"{stem}-{counts[stem]}"
        if name not in taken:
            taken.add(name)
            return name


def _places_by_name(nodes: Sequence[Node]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, node in enumerate(nodes):
        if node.name is None:
            continue
        if node.name in places:
            raise DuplicateNodeError(
                f"two nodes are called {node.name!r}; a name stands for one job of its flow"
            )
        places[node.name] = place
    return places


def _waits(node: Node, places: Mapping[str, int]) -> Dependencies | None:
    """Return what a node waits for by its own word and by the graph's; places are the graph's."""
    own = node.job.after
    if own is None:
        return check_dependencies(node.behind, mode=mode_of(node), gathers=node.gathers)
    on = [_resolved(each, node, places) for each in own.on]
    if node.behind and own.mode is not mode_of(node):
        raise InvalidJobError(
            f"{_called(node)} waits in two ways: {own.mode} of what after= names, and "
            f"{mode_of(node)} of what comes before it in the graph; put a job in between"
        )
    gathers = own.gathers or node.gathers
    return check_dependencies([*on, *node.behind], mode=own.mode, gathers=gathers)


def _resolved(on: str | int, node: Node, places: Mapping[str, int]) -> str | int:
    """Return the place of a node or the id of a stored job; a name wins."""
    if isinstance(on, str) and on in places:
        return places[on]
    if isinstance(on, str) and is_id(on):
        return on
    close = difflib.get_close_matches(str(on), places)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else _known(places)
    raise UnknownDependencyError(
        str(on),
        f"{_called(node)} waits for {shown(on)}, which is neither a node of this flow nor a job "
        f"id; {hint}",
    )


def _known(places: Iterable[str]) -> str:
    names = list(places)
    rest = ", …" if len(names) > SHOWN_NODES else ""
    return f"its nodes are {', '.join(names[:SHOWN_NODES])}{rest}" if names else "it has no names"


def _called(node: Node) -> str:
    return f"{node.name!r}" if node.name is not None else f"a job of type {node.job.type!r}"


def _inner(waits: Dependencies | None) -> list[int]:
    return [on for on in waits.on if isinstance(on, int)] if waits is not None else []


def _order(nodes: Sequence[Node], waits: Sequence[Dependencies | None]) -> list[int]:
    """Return the places in an order that respects *waits*, or raise DependencyCycleError."""
    order = in_order([_inner(each) for each in waits])
    if len(order) < len(nodes):
        stuck = sorted(set(range(len(nodes))).difference(order))
        raise DependencyCycleError(_cycle(nodes, waits, stuck))
    return order


def in_order(behind: Sequence[Sequence[int]]) -> list[int]:
    """Return every place after those that it is *behind*, else as near as can be to their order.

    Places that can never come, because they are behind themselves, are left out.
    """
    missing = [len(each) for each in behind]
    waiting: dict[int, list[int]] = {}
    for place, each in enumerate(behind):
        for on in each:
            waiting.setdefault(on, []).append(place)
    ready = [place for place, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        place = heappop(ready)
        order.append(place)
        for other in waiting.get(place, ()):
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, other)
    return order


def _cycle(
    nodes: Sequence[Node], waits: Sequence[Dependencies | None], stuck: Sequence[int]
) -> str:
    """Say who waits for whom, beginning with any one of those that never could run."""
    among = set(stuck)
    way: dict[int, None] = {}  # in order, and quick to look into
    place = stuck[0]
    while place not in way:
        way[place] = None
        place = next(on for on in _inner(waits[place]) if on in among)
    circle = list(way)[list(way).index(place) :]
    if len(circle) == 1:
        return f"{_called(nodes[place])} waits for itself, and would never run"
    shown_ = [nodes[each].name or nodes[each].job.type for each in circle[:SHOWN_NODES]]
    rest = ["…"] if len(circle) > SHOWN_NODES else []
    text = " → ".join([*shown_, *rest, shown_[0]])
    return f"these wait for each other, and none would ever run: {text}"


def _check_depth(order: Sequence[int], waits: Sequence[Dependencies | None]) -> None:
    depths: dict[int, int] = {}
    for place in order:
        depths[place] = check_depth(1 + max((depths[on] for on in _inner(waits[place])), default=0))


def _ranked(node: Node, waits: Dependencies | None, rank: Mapping[int, int]) -> NewJob:
    after = waits
    if waits is not None:
        on = tuple(rank[each] if isinstance(each, int) else each for each in waits.on)
        after = replace(waits, on=on)
    return replace(node.job, after=after, node=node.name)

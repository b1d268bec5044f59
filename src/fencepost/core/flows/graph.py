"""Graphs of jobs: dependencies by name or by composition, in an order for a store.

A graph is a value. ``chain``, ``fan_out`` and ``fan_in`` compose prepared jobs and other graphs.
``arrange`` sorts a graph and refuses what could never run before anything is stored: cycles,
unknown names, chains that are too long, jobs with too many dependencies (S1-65 to S1-68).
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain as joined

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import NODE_LENGTH_MAX
from fencepost.core.display import shown
from fencepost.core.flows.dependencies import Dependencies, Mode, check_dependencies, check_depth
from fencepost.core.job.job import NewJob
from fencepost.core.values.names import check_node, is_id
from fencepost.errors import (
    DependencyCycleError,
    DuplicateNodeError,
    EmptyFlowError,
    InvalidJobError,
    UnknownDependencyError,
)


class Node(msgspec.Struct, frozen=True):
    """A job of a graph and its dependencies there."""

    job: NewJob
    name: str | None = None
    behind: tuple[int, ...] = ()
    """Places of other nodes, in addition to what the job names itself."""
    mode: Mode = Mode.ALL
    gathers: bool = False


class Graph(msgspec.Struct, frozen=True):
    """Jobs that wait for each other. Graphs compose: a stage may be a job or a graph."""

    nodes: tuple[Node, ...]
    first: tuple[int, ...]
    """The places of the nodes that begin it."""
    last: tuple[int, ...]
    """The places of the nodes that end it; what comes next waits for all of them."""

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} jobs>"


Stage = NewJob | tuple[str, NewJob] | Graph
"""A prepared job, one with a name, or a graph."""
Nodes = Mapping[str, NewJob] | Sequence[Stage]


def chain(*stages: Stage) -> Graph:
    """Return a graph that runs *stages* one after the other; a failure ends the rest (C27)."""
    if not stages:
        raise EmptyFlowError("a chain needs at least one prepared job")
    check_depth(len(stages))
    whole = as_graph(stages[0])
    for stage in stages[1:]:
        whole = _then(whole, as_graph(stage))
    return whole


def fan_out(before: Stage, branches: Iterable[Stage]) -> Graph:
    """Return a graph that runs *before*, then all *branches* in parallel (S1-63)."""
    return _then(as_graph(before), side_by_side(branches))


def fan_in(branches: Iterable[Stage], after: Stage, *, accept_failures: bool = False) -> Graph:
    """Return a graph that runs *branches* in parallel, and *after* once all are done (S1-64).

    It also waits for the jobs that they spawn. With *accept_failures* it runs even if some fail.
    """
    mode = Mode.ENDED if accept_failures else Mode.ALL
    return _then(side_by_side(branches), as_graph(after), mode=mode, gathers=True)


def side_by_side(branches: Iterable[Stage]) -> Graph:
    """Return a graph whose branches do not wait for each other."""
    if isinstance(branches, (Graph, NewJob, str)):
        raise InvalidJobError(f"give a list of branches, not {shown(branches)} alone")
    graphs = [as_graph(each) for each in branches]
    if not graphs:
        raise EmptyFlowError("there are no branches; give a list of prepared jobs")
    nodes: list[Node] = []
    first: list[int] = []
    last: list[int] = []
    for graph in graphs:
        start = len(nodes)
        nodes += _moved(graph.nodes, start)
        first += (start + place for place in graph.first)
        last += (start + place for place in graph.last)
    return Graph(tuple(nodes), tuple(first), tuple(last))


def named(nodes: Nodes) -> Graph:
    """Return a graph of *nodes* that only have the dependencies that they name."""
    given: object = nodes
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidJobError(
            f"a flow is a mapping of names to prepared jobs, a list of pairs, or a graph made by "
            f"chain(), fan_out() or fan_in(); got {shown(given)}"
        )
    stages: list[Stage] = list(given.items() if isinstance(given, Mapping) else given)
    if not stages:
        raise EmptyFlowError("a flow needs at least one prepared job")
    return side_by_side(stages)


def as_graph(stage: Stage) -> Graph:
    """Return *stage* as a graph, or raise InvalidJobError."""
    match stage:
        case Graph():
            return stage
        case NewJob():
            return Graph((Node(stage),), (0,), (0,))
        case (str() as name, NewJob() as job):
            return Graph((Node(job, check_node(name)),), (0,), (0,))
        case _:
            raise InvalidJobError(
                f"a flow is made of prepared jobs: task.prepare(…), not {shown(stage)}"
            )


def _then(before: Graph, after: Graph, *, mode: Mode = Mode.ALL, gathers: bool = False) -> Graph:
    """Return a graph in which the first nodes of *after* wait for the last ones of *before*."""
    start = len(before.nodes)
    beginning = {start + place for place in after.first}
    moved = _moved(after.nodes, start)
    nodes = [
        replace(node, behind=before.last, mode=mode, gathers=gathers)
        if place in beginning
        else node
        for place, node in enumerate(moved, start)
    ]
    return Graph(
        tuple(joined(before.nodes, nodes)), before.first, tuple(start + n for n in after.last)
    )


def _moved(nodes: Sequence[Node], by: int) -> Sequence[Node]:
    """Return *nodes* with all places moved *by*."""
    if not by:
        return nodes
    moved: dict[int, tuple[int, ...]] = {}  # nodes that share a tuple still do afterwards
    for node in nodes:
        if node.behind and id(node.behind) not in moved:
            moved[id(node.behind)] = tuple(place + by for place in node.behind)
    return [replace(n, behind=moved[id(n.behind)]) if n.behind else n for n in nodes]


SHOWN_NODES = 10
"""How many nodes of a cycle its error names."""
NUMBER_ROOM = 8
"""Characters of a name that are left for its number."""


def arrange(graph: Graph) -> list[NewJob]:
    """Return the jobs of *graph*, each after its dependencies, with the names of their nodes.

    Raises a DependencyError, or InvalidJobError for a node that waits in two modes.
    """
    nodes = graph.nodes
    places = _places_by_name(nodes)
    waits = [_waits(node, places) for node in nodes]
    order = _order(nodes, waits)
    rank = {place: number for number, place in enumerate(order)}
    _check_depth(order, waits)
    return [_ranked(nodes[place], waits[place], rank) for place in order]


def names_for(jobs: Sequence[NewJob]) -> list[str]:
    """Return a name for each job: its own, else ``type``, ``type-2``, …"""
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
    """Return the dependencies of a node, those of its job and those of the graph, as places."""
    own = node.job.after
    if own is None:
        return check_dependencies(node.behind, mode=node.mode, gathers=node.gathers)
    on = [_resolved(each, node, places) for each in own.on]
    if node.behind and own.mode is not node.mode:
        raise InvalidJobError(
            f"{_called(node)} waits in two ways: {own.mode} of what after= names, and "
            f"{node.mode} of what comes before it in the graph; put a job in between"
        )
    gathers = own.gathers or node.gathers
    return check_dependencies([*on, *node.behind], mode=own.mode, gathers=gathers)


def _resolved(on: str | int, node: Node, places: Mapping[str, int]) -> str | int:
    """Return the place of a node, or the id of a stored job; names come first."""
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
    """Return every place after those that it is *behind*, otherwise in their order.

    Places on a cycle, and behind one, are left out.
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
    """Return a text that shows one cycle among the jobs that could never run."""
    among = set(stuck)
    way: dict[int, None] = {}  # ordered, with quick lookup
    place = stuck[0]
    while place not in way:
        way[place] = None
        place = next(on for on in _inner(waits[place]) if on in among)
    circle = list(way)[list(way).index(place) :]
    if len(circle) == 1:
        return f"{_called(nodes[place])} waits for itself and would never run"
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

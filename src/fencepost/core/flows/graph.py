"""Graphs of jobs: who waits for whom, by name or by composition, put in an order for a store.

A graph is a value. ``chain``, ``fan_out`` and ``fan_in`` make one of prepared jobs and of other
graphs; ``arrange`` (in ``core.arrangement``) refuses what could never run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain as joined

import msgspec
from msgspec.structs import replace

from fencepost.core.display import shown
from fencepost.core.flows.dependencies import Mode, check_depth
from fencepost.core.job.job import NewJob
from fencepost.core.values.names import check_node
from fencepost.errors import EmptyFlowError, InvalidJobError


class Node(msgspec.Struct, frozen=True):
    """A job of a graph, and what the graph has it wait for."""

    job: NewJob
    name: str | None = None
    behind: tuple[int, ...] = ()
    """Places of other nodes, beyond what the job itself names."""
    accepts_failures: bool = False
    gathers: bool = False


class Graph(msgspec.Struct, frozen=True):
    """Jobs that wait for each other. Graphs compose: a stage may be a job or a graph."""

    nodes: tuple[Node, ...]
    first: tuple[int, ...]
    """The places of those that begin it."""
    last: tuple[int, ...]
    """The places of those that end it; what comes next waits for every one of them."""

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
        raise EmptyFlowError("a chain of nothing has nothing to run; give it a prepared job")
    check_depth(len(stages))
    whole = as_graph(stages[0])
    for stage in stages[1:]:
        whole = _then(whole, as_graph(stage))
    return whole


def fan_out(before: Stage, branches: Iterable[Stage]) -> Graph:
    """Return a graph that runs *before*, and then all *branches* side by side (S1-63)."""
    return _then(as_graph(before), side_by_side(branches))


def fan_in(branches: Iterable[Stage], after: Stage, *, accept_failures: bool = False) -> Graph:
    """Return a graph that runs *branches* side by side, and *after* once all are done (S1-64).

    It waits for whatever they spawn, too. With *accept_failures* it runs however they end.
    """
    return _then(
        side_by_side(branches), as_graph(after), accepts_failures=accept_failures, gathers=True
    )


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
    """Return a graph of *nodes* that wait only for what they name themselves."""
    given: object = nodes
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidJobError(
            f"a flow is a mapping of names to prepared jobs, a list of pairs, or a graph made by "
            f"chain(), fan_out() or fan_in(); got {shown(given)}"
        )
    stages: list[Stage] = list(given.items() if isinstance(given, Mapping) else given)
    if not stages:
        raise EmptyFlowError("a flow of nothing has nothing to run; give it a prepared job")
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


def _then(
    before: Graph, after: Graph, *, accepts_failures: bool = False, gathers: bool = False
) -> Graph:
    """Return a graph in which the first nodes of *after* wait for the last ones of *before*."""
    start = len(before.nodes)
    beginning = {start + place for place in after.first}
    moved = _moved(after.nodes, start)
    nodes = [
        replace(node, behind=before.last, accepts_failures=accepts_failures, gathers=gathers)
        if place in beginning
        else node
        for place, node in enumerate(moved, start)
    ]
    return Graph(
        tuple(joined(before.nodes, nodes)), before.first, tuple(start + n for n in after.last)
    )


def _moved(nodes: Sequence[Node], by: int) -> Sequence[Node]:
    """Return *nodes* as they are called *by* places further on."""
    if not by:
        return nodes
    moved: dict[int, tuple[int, ...]] = {}  # many nodes share one tuple, and still do afterwards
    for node in nodes:
        if node.behind and id(node.behind) not in moved:
            moved[id(node.behind)] = tuple(place + by for place in node.behind)
    return [replace(n, behind=moved[id(n.behind)]) if n.behind else n for n in nodes]


def mode_of(node: Node) -> Mode:
    """Return how the graph has *node* wait."""
    return Mode.ENDED if node.accepts_failures else Mode.ALL

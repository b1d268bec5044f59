"""Graphs of jobs: how they compose, in which order they are stored, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as given_
from hypothesis import strategies as st

from fencepost.core.bounds import DEPENDENCY_COUNT_MAX, DEPENDENCY_DEPTH_MAX, NODE_LENGTH_MAX
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.flows.graph import (
    Graph,
    arrange,
    chain,
    fan_in,
    fan_out,
    in_order,
    named,
    names_for,
)
from fencepost.core.job.job import NewJob
from fencepost.errors import (
    DependencyBreadthError,
    DependencyCycleError,
    DependencyDepthError,
    DuplicateNodeError,
    EmptyFlowError,
    InvalidJobError,
    UnknownDependencyError,
)

STORED = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


def job(type: str, *on: str, mode: Mode = Mode.ALL) -> NewJob:
    return NewJob(type=type, after=Dependencies(on, mode) if on else None)


a, b, c, d, e = (NewJob(type=name) for name in "abcde")


def edges(graph: Graph) -> dict[str, list[str]]:
    """Return by type what each job waits for."""
    jobs = arrange(graph)
    return {
        each.type: sorted(
            jobs[on].type if isinstance(on, int) else on
            for on in (each.after.on if each.after else ())
        )
        for each in jobs
    }


def test_a_chain_has_each_wait_for_the_one_before() -> None:
    """S1-62."""
    assert edges(chain(a, b, c)) == {"a": [], "b": ["a"], "c": ["b"]}


def test_a_fan_out_has_all_wait_for_one() -> None:
    """S1-63."""
    assert edges(fan_out(a, [b, c])) == {"a": [], "b": ["a"], "c": ["a"]}


def test_a_fan_in_has_one_wait_for_all_and_for_what_they_spawn() -> None:
    """S1-64, C29."""
    graph = fan_in([a, b], c)
    assert edges(graph) == {"a": [], "b": [], "c": ["a", "b"]}
    last = arrange(graph)[-1]
    assert last.after == Dependencies((0, 1), Mode.ALL, gathers=True)


def test_a_fan_in_can_accept_failures() -> None:
    """C28."""
    last = arrange(fan_in([a, b], c, accept_failures=True))[-1]
    assert last.after is not None
    assert last.after.mode is Mode.ENDED


def test_graphs_compose_stage_by_stage() -> None:
    whole = chain(a, fan_out(b, [c, d]), e)
    assert edges(whole) == {"a": [], "b": ["a"], "c": ["b"], "d": ["b"], "e": ["c", "d"]}
    assert edges(fan_in([chain(a, b), chain(c, d)], e)) == {
        "a": [],
        "b": ["a"],
        "c": [],
        "d": ["c"],
        "e": ["b", "d"],
    }
    assert len(whole) == 5
    assert repr(whole) == "<Graph of 5 jobs>"


def test_the_same_job_may_stand_in_several_places() -> None:
    jobs = arrange(chain(a, a, fan_out(a, [a, a])))
    assert [each.after.on if each.after else () for each in jobs] == [(), (0,), (1,), (2,), (2,)]


def test_named_nodes_wait_for_what_they_name_in_whatever_order_they_come() -> None:
    graph = named({"z": job("z", "y", "x"), "y": job("y", "x"), "x": job("x")})
    jobs = arrange(graph)
    assert [each.node for each in jobs] == ["x", "y", "z"]
    assert [each.after.on if each.after else () for each in jobs] == [(), (0,), (1, 0)]


def test_names_work_inside_compositions_too() -> None:
    graph = chain(("first", a), b, fan_out(c, [job("d", "first"), e]))
    assert edges(graph)["d"] == ["a", "c"]


def test_a_node_may_wait_for_stored_jobs_beside() -> None:
    jobs = arrange(named({"x": job("x", STORED), "y": job("y", "x", STORED)}))
    assert jobs[0].after == Dependencies((STORED,))
    assert jobs[1].after == Dependencies((0, STORED))


def test_a_name_wins_over_an_id() -> None:
    jobs = arrange(named({STORED: job("x"), "y": job("y", STORED)}))
    assert jobs[1].after == Dependencies((0,))


def test_what_was_given_in_order_stays_in_order() -> None:
    assert [each.type for each in arrange(named([c, a, b]))] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("nodes", "circle"),
    [
        ({"a": job("a", "b"), "b": job("b", "a")}, "a → b → a"),
        ({"a": job("a", "b"), "b": job("b", "c"), "c": job("c", "a")}, "a → b → c → a"),
        # Those that only wait for a circle are not named.
        ({"x": job("x", "a"), "a": job("a", "b"), "b": job("b", "a")}, "a → b → a"),
    ],
)
def test_a_cycle_is_refused_and_named(nodes: dict[str, NewJob], circle: str) -> None:
    """S1-65."""
    with pytest.raises(DependencyCycleError, match=circle):
        arrange(named(nodes))


def test_a_job_cannot_wait_for_itself() -> None:
    """S1-65."""
    with pytest.raises(DependencyCycleError, match="'a' waits for itself"):
        arrange(named({"a": job("a", "a")}))


def test_a_long_cycle_is_named_in_short() -> None:
    size = 5_000
    ring = {f"n{n}": job("t", f"n{(n + 1) % size}") for n in range(size)}
    with pytest.raises(DependencyCycleError) as caught:
        arrange(named(ring))
    assert len(str(caught.value)) < 200


def test_a_name_that_nobody_has_is_refused_with_those_that_are_near() -> None:
    """S1-68."""
    with pytest.raises(UnknownDependencyError, match="did you mean 'extract'") as caught:
        arrange(named({"extract": a, "load": job("load", "extrakt")}))
    assert caught.value.job_id == "extrakt"
    with pytest.raises(UnknownDependencyError, match="its nodes are extract, load"):
        arrange(named({"extract": a, "load": job("load", "zzz")}))
    with pytest.raises(UnknownDependencyError, match="it has no names"):
        arrange(named([job("load", "zzz")]))


def test_a_way_may_have_a_hundred_jobs_and_no_more() -> None:
    """S1-66."""
    longest = [a] * DEPENDENCY_DEPTH_MAX
    assert len(arrange(chain(*longest))) == DEPENDENCY_DEPTH_MAX
    with pytest.raises(DependencyDepthError):
        chain(*longest, a)
    with pytest.raises(DependencyDepthError):
        arrange(chain(chain(*longest), a))
    names = {f"n{n}": job("t", *([f"n{n - 1}"] if n else [])) for n in range(101)}
    with pytest.raises(DependencyDepthError):
        arrange(named(names))


def test_a_job_may_wait_for_a_thousand_and_no_more() -> None:
    """S1-67."""
    assert len(arrange(fan_in([a] * DEPENDENCY_COUNT_MAX, b))) == DEPENDENCY_COUNT_MAX + 1
    with pytest.raises(DependencyBreadthError, match="1,001"):
        arrange(fan_in([a] * (DEPENDENCY_COUNT_MAX + 1), b))


def test_a_name_stands_for_one_node() -> None:
    with pytest.raises(DuplicateNodeError, match="'x'"):
        arrange(named([("x", a), ("x", b)]))
    with pytest.raises(DuplicateNodeError):
        arrange(chain(("x", a), fan_out(b, [("x", c)])))


@pytest.mark.parametrize(
    "make", [lambda: chain(), lambda: fan_out(a, []), lambda: fan_in([], a), lambda: named({})]
)
def test_nothing_is_no_flow(make: Any) -> None:
    with pytest.raises(EmptyFlowError):
        make()


WRONG: list[tuple[Any, tuple[Any, ...]]] = [
    (chain, ("a",)),
    (chain, (a, None)),
    (fan_out, (a, b)),
    (fan_in, (chain(a), b)),
    (named, ("abc",)),
    (named, (5,)),
    (named, ({"": a},)),
    (named, ({5: a},)),
    (named, ({"x" * (NODE_LENGTH_MAX + 1): a},)),
    (named, ({"x": 5},)),
]


@pytest.mark.parametrize(("make", "given"), WRONG)
def test_what_is_no_prepared_job_is_refused(make: Any, given: Any) -> None:
    with pytest.raises(InvalidJobError):
        make(*given)


def test_a_job_waits_in_one_way_only() -> None:
    with pytest.raises(InvalidJobError, match="two ways"):
        arrange(chain(("x", a), b, job("c", "x", mode=Mode.ANY)))


def test_jobs_without_a_name_are_called_by_their_type() -> None:
    graph = named([a, a, ("a-2", b), NewJob(type="t" * 200), NewJob(type="t" * 200)])
    names = names_for(arrange(graph))
    assert names[:3] == ["a", "a-3", "a-2"]
    assert len(set(names)) == 5
    assert all(len(name) <= NODE_LENGTH_MAX for name in names)


@given_(st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.data())))
def test_any_graph_without_cycles_comes_in_an_order_that_respects_it(drawn: Any) -> None:
    """S1-65: each stands behind all that it waits for, whatever the order it was given in."""
    size, data = drawn
    labels = data.draw(st.permutations(range(size)))
    behind: list[list[int]] = [[] for _ in range(size)]
    for number in range(size):
        earlier = st.lists(st.sampled_from(range(number)), unique=True) if number else st.just([])
        behind[labels[number]] = [labels[on] for on in data.draw(earlier)]
    order = in_order(behind)
    assert sorted(order) == list(range(size))
    rank = {place: n for n, place in enumerate(order)}
    assert all(rank[on] < rank[place] for place in range(size) for on in behind[place])

"""The graph around a job as lines of text: which job waits for which."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fencepost.cli.output import Cell, aligned, can_show, clean, fitted, short_id
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.flows.dependencies import Mode
from fencepost.core.flows.graph import in_order, unique_names
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.store import Store

JOBS_MAX = 200
"""How many jobs are drawn at most; of a larger graph, those nearest to the job."""
INDENT_MAX = 20
"""How many levels a job is indented at most."""
NAMED_MAX = 5
"""How many of the jobs that a job waits for are named."""

ARROWS = ("\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}", "\N{LEFTWARDS ARROW}")
PLAIN_ARROWS = ("`->", "<-")


class Neighbourhood(NamedTuple):
    """The jobs around one, oldest first, and the jobs that each of them waits or waited for."""

    jobs: list[Job]
    behind: dict[str, list[str]]
    is_cut: bool
    """Whether there are more than are shown."""


def around(store: Store, job: Job) -> Neighbourhood:
    """Return the flow of *job*, or the jobs connected with it, at most JOBS_MAX."""
    ids, is_cut = _flow(store, job) or _connected(store, job.id)
    found = [each for each in store.run(store.reader.get(ids)) if each is not None]
    found.sort(key=lambda each: each.created_at)
    known = {each.id for each in found}
    names = [each.id for each in found]
    waited = store.run(store.reader.dependencies(names))
    behind = {
        job_id: [each.job_id for each in dependencies if each.job_id in known]
        for job_id, dependencies in zip(names, waited, strict=True)
    }
    return Neighbourhood(found, behind, is_cut)


def _flow(store: Store, job: Job) -> tuple[list[str], bool] | None:
    """Return the ids of a whole flow; None if there is none, or if it is too large."""
    if job.flow is None:
        return None
    page = store.run(store.reader.find(JobFilter(flow=job.flow), PageRequest(JOBS_MAX)))
    if page.next is not None:
        return None
    return [each.id for each in reversed(page.jobs)], False


def _connected(store: Store, job_id: str) -> tuple[list[str], bool]:
    """Return the ids of the jobs nearest to one, in both directions."""
    seen = {job_id: None}
    frontier = [job_id]
    while frontier:
        before = store.run(store.reader.dependencies(frontier))
        after = store.run(store.reader.dependents(frontier))
        near = [each.job_id for some in before for each in some]
        near += [each for some in after for each in some]
        frontier = [each for each in dict.fromkeys(near) if each not in seen]
        room = JOBS_MAX - len(seen)
        seen.update(dict.fromkeys(frontier[:room]))
        if len(frontier) > room:
            return list(seen), True
    return list(seen), False


def graph_rows(
    around: Neighbourhood, current: str, *, arrows: tuple[str, str]
) -> Iterator[tuple[str | Cell, ...]]:
    """Yield name, type, state, id and dependencies, each job below its last dependency."""
    jobs = {each.id: each for each in around.jobs}
    titles = unique_names([(each.node, each.type) for each in around.jobs])
    names = dict(zip(jobs, titles, strict=True))
    order = _ordered(around)
    levels: dict[str, int] = {}
    for job_id in order:
        levels[job_id] = 1 + max((levels[each] for each in around.behind[job_id]), default=-1)
    for job_id in _walk(order, around.behind):
        job, behind = jobs[job_id], around.behind[job_id]
        notes = [f"{arrows[0]} {_waits(job, [names[each] for each in behind])}"] if behind else []
        notes += [f"{arrows[1]} this job"] if job_id == current else []
        indent = "  " * min(levels[job_id], INDENT_MAX)
        yield f"{indent}{names[job_id]}", job.type, job.state, short_id(job_id), "  ".join(notes)


def _ordered(around: Neighbourhood) -> list[str]:
    """Return the ids, each after its dependencies."""
    ids = [each.id for each in around.jobs]
    places = {job_id: place for place, job_id in enumerate(ids)}
    edges = [[places[each] for each in around.behind[job_id]] for job_id in ids]
    return [ids[place] for place in in_order(edges)]


def _walk(order: Sequence[str], behind: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the ids from top to bottom, each right below its last dependency."""
    rank = {job_id: number for number, job_id in enumerate(order)}
    below: dict[str | None, list[str]] = {}
    for job_id in order:
        last = max(behind[job_id], key=rank.__getitem__, default=None)
        below.setdefault(last, []).append(job_id)
    stack = below.get(None, [])[::-1]
    while stack:
        yield stack[-1]
        stack.extend(below.get(stack.pop(), [])[::-1])


_HOW = {Mode.ALL: "", Mode.ANY: "any of ", Mode.ENDED: "the end of "}


def _waits(job: Job, names: Sequence[str]) -> str:
    verb = "waits for" if job.state is State.PENDING else "waited for"
    how = "" if job.waits is None else _HOW[job.waits.mode]
    rest = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{verb} {how}{', '.join(names[:NAMED_MAX])}{rest}"


def draw(around: Neighbourhood, job: Job) -> list[str]:
    """Return the lines of the graph around *job*; none for a single job."""
    if len(around.jobs) < 2:
        return []
    has_arrows = can_show("".join(ARROWS), sys.stdout.encoding)
    arrows = ARROWS if has_arrows else PLAIN_ARROWS
    rows = list(graph_rows(around, job.id, arrows=arrows))
    what = f"flow {job.flow}" if job.flow is not None and not around.is_cut else "around it"
    count = f"the nearest {len(rows)}" if around.is_cut else f"{len(rows)}"
    lines = aligned([[clean(fitted(cell)) for cell in row] for row in rows])
    return [f"{what} ({count} jobs)", *(f"  {line}" for line in lines)]

"""How long the first page of a search takes over HTTP, with many jobs kept, filter by filter."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from bench.bench import Bench
from bench.figures import Figure, Target, percentile
from bench.http.history import fill
from bench.http.processes import Request, Served, serving

PAGE_TARGET = Target("value", below=20.0)
PATH = "/v1/jobs"
WARM_UP = 20


class Search(NamedTuple):
    """A filter by one condition, and what is said of it."""

    name: str
    title: str
    query: dict[str, str]


def searches(middle: datetime, count: int) -> list[Search]:
    """Return one search without a condition, and some of each condition: common and rare."""
    half = middle.isoformat()
    number = count // 200
    return [
        Search("none", "no filter", {}),
        Search("state", "state=completed", {"state": "completed"}),
        Search("state-rare", "state=dead_letter, 1 in 1,000", {"state": "dead_letter"}),
        Search("state-none", "state=running, none", {"state": "running"}),
        Search("type", "type, 9 in 10", {"type": "mail"}),
        Search("type-rare", "type, a few, old", {"type": "rare"}),
        Search("queue", "queue, 1 in 2", {"queue": "bulk"}),
        Search("queue-rare", "queue, a few, old", {"queue": "rare"}),
        Search("tag", "tag, 1 in 1,000", {"tag": "tenant:7"}),
        Search("tag-rare", "tag, a few, old", {"tag": "rare:yes"}),
        Search("correlation", "correlation_id, 10 jobs", {"correlation_id": f"order-{number}"}),
        Search("flow", "flow, 10 jobs", {"flow": f"flow-{number}"}),
        Search("created-after", "created_after, half", {"created_after": half}),
        Search("created-before", "created_before, half", {"created_before": half}),
    ]


def measure(bench: Bench, _: AbstractSet[str]) -> list[Figure]:
    """Return the 99th percentile of each search, beside its median."""
    count = bench.sizes.backlog
    with bench.new_store() as url:
        middle = fill(bench, url, count)
        with serving(bench, url) as served:
            return [_page(bench, served, each, count) for each in searches(middle, count)]


def _page(bench: Bench, served: Served, search: Search, kept: int) -> Figure:
    bench.tell(f"http: first page, {search.title}")
    path = f"{PATH}?{urlencode(search.query)}" if search.query else PATH
    request = Request("GET", path, 200)
    served.ask(request, connections=1, count=min(WARM_UP, bench.sizes.samples))
    found = served.ask(request, connections=1, count=bench.sizes.samples)
    times = [seconds * 1e3 for seconds in found.timed.latencies]
    start = f"GET {PATH} of {kept:,}: " if search.name == "none" else "… "
    return Figure(
        name=f"http-page.{search.name}",
        title=f"{start}{search.title}, p99",
        unit="ms",
        value=percentile(times, 0.99),
        beside=percentile(times, 0.5),
        beside_what="p50",
        target=PAGE_TARGET,
    )

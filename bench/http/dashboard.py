"""What the pages of the dashboard cost: each request of a page, and the page in a browser.

The store has ``backlog`` ended jobs and a tenth as many that wait. A request is timed at the
caller, so that its time is an upper bound of what it takes the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from bench.bench import Bench
from bench.figures import Figure, Target, percentile
from bench.http.history import fill
from bench.http.page import Drawn, draw
from bench.http.processes import Request, Served, serving
from bench.noop import BenchApp

REQUEST_TARGET = Target("value", at_most=50.0)
DRAWN_TARGET = Target("value", at_most=1_000.0)
ROLES = ("read", "admin")
WAITING_SHARE = 10
"""One job waits for so many that have ended."""
WAITING_STEP = 20_000
TIMES_MAX = 100
"""How often a request is made."""
WARM_UP = 5

CHARTS = ["completed", "failed", "dead", "wait_p50", "wait_p99", "run_p50", "run_p99"]
VITALS = ["completed", "enqueued", "failed", "wait_p99", "oldest_age", "running", "dead"]


LANE_METRICS = ["depth", "enqueued", "completed", "failed", "dead"]


class Ids(NamedTuple):
    """What pages of one thing are opened for."""

    job: str
    flow: str


def series(metrics: list[str], window: str, *, by: str = "") -> str:
    """Return the path of a chart's lines."""
    names = "&".join(f"metric={metric}" for metric in metrics)
    return f"series?{names}{by and f'&by={by}'}&window={window}"


def pages(ids: Ids) -> dict[str, list[str]]:
    """Return the paths that each page reads, below ``/v1/``; those of all pages are in the first.

    ``tests/dashboard`` holds this against what the pages ask for in a browser.
    """
    job = f"jobs/{ids.job}"
    return {
        "overview": [
            *("me", "queues", "types", "workers", "leases?limit=200", "stats?window=5m"),
            *("attention", series(CHARTS, "1h"), series(CHARTS, "7d"), series(VITALS, "1h")),
            series(LANE_METRICS, "1h", by="queue"),
        ],
        "jobs": ["jobs/count", "jobs?limit=50", "jobs?limit=50&state=completed"],
        "job": [
            *(job, f"{job}/attempts", f"{job}/history", f"{job}/why", f"{job}/refusals"),
        ],
        "dead-letters": ["replays", "dead-letters/groups", "dead-letters?limit=200"],
        "flows": ["flows?limit=50"],
        "flow": [f"flows/{ids.flow}"],
        "queues": [
            *("queues", "types", "workers", "stats?window=5m", "limit"),
            series(LANE_METRICS, "1h", by="queue"),
            series(["completed"], "1h", by="type"),
        ],
        "workers": ["workers", "leases?limit=200"],
        "crons": ["crons"],
        "events": ["events?limit=100"],
        "tokens": ["tokens"],
        "audit": ["audit?limit=100"],
        "system": ["doctor", "limit"],
    }


def addresses(ids: Ids) -> dict[str, str]:
    """Return where each page is."""
    own = {"overview": "", "job": f"jobs/{ids.job}", "flow": f"flows/{ids.flow}"}
    return {name: own.get(name, name) for name in pages(ids)}


def measure(bench: Bench, wanted: AbstractSet[str]) -> list[Figure]:
    """Return for each page the slowest of its requests, and how long a browser takes to draw it."""
    count = bench.sizes.backlog
    figures: list[Figure] = []
    with bench.new_store() as url:
        fill(bench, url, count)
        ids = _wait(bench, url, max(count // WAITING_SHARE, 1))
        with serving(bench, url, roles=ROLES) as served:
            if "http-dashboard" in wanted:
                found = pages(ids).items()
                figures += [_requests(bench, served, name, paths, count) for name, paths in found]
            if "http-dashboard-drawn" in wanted:
                bench.tell("http: the dashboard in a browser")
                drawn = draw(served.url, served.token, addresses(ids), times=bench.sizes.rounds)
                figures += _drawn(drawn, count)
    return figures


def _wait(bench: Bench, url: str, count: int) -> Ids:
    """Submit *count* jobs; return the id of one, and of a flow."""
    with BenchApp(url) as app:
        for start in range(0, count, WAITING_STEP):
            bench.tell(f"storing {count:,} waiting jobs: {start:,}")
            app.noop.submit_many(range(start, min(start + WAITING_STEP, count)))
        job = app.noop.submit(count)
        flow = app.app.flow([app.noop.prepare(0), app.noop.prepare(1)]).submit()
        return Ids(job.id, flow.id)


def _requests(bench: Bench, served: Served, name: str, paths: list[str], kept: int) -> Figure:
    times: dict[str, list[float]] = {}
    costs: dict[str, float] = {}
    count = min(TIMES_MAX, bench.sizes.samples)
    for path in paths:
        bench.tell(f"http: dashboard, {name}, {path.partition('?')[0]}")
        request = Request("GET", f"/v1/{path}", 200)
        served.ask(request, connections=1, count=min(WARM_UP, count))
        found = served.ask(request, connections=1, count=count)
        times[path] = [seconds * 1e3 for seconds in found.timed.latencies]
        costs[path] = found.cpu_seconds / count * 1e3
    slowest = max(times, key=lambda path: percentile(times[path], 0.99))
    start = f"dashboard, {kept:,} ended jobs: " if name == "overview" else "… "
    return Figure(
        name=f"http-dashboard.{name}",
        title=f"{start}{name}, its slowest request, p99",
        unit="ms",
        value=percentile(times[slowest], 0.99),
        beside=percentile(times[slowest], 0.5),
        beside_what="p50",
        target=REQUEST_TARGET,
        note=f"GET /v1/{slowest}; {costs[slowest]:.1f} ms of the server's processor each",
    )


def _drawn(drawn: Mapping[str, Drawn] | None, kept: int) -> list[Figure]:
    return [
        Figure(
            name=f"http-dashboard-drawn.{name}",
            title=f"dashboard, {kept:,} ended jobs: {name} drawn in a browser"
            if name == "overview"
            else f"… {name} drawn",
            unit="ms",
            value=each.median,
            beside=each.highest,
            beside_what="most",
            target=DRAWN_TARGET,
        )
        for name, each in (drawn or {}).items()
    ]

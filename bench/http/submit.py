"""Submitting over HTTP: one job a request beside an echo, and many beside a bulk in process."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial
from statistics import median

import msgspec

from bench.bench import Bench
from bench.figures import Figure, Target, pair
from bench.http.processes import Request, Served, serving
from bench.http.server import ECHO
from bench.noop import BenchApp

CONNECTIONS = 16
BATCH = 1_000
BATCHES = 10
"""Batches of a round, one after the other."""

SUBMIT_TARGET = Target("ratio", at_least=0.35)
BATCH_TARGET = Target("ratio", at_least=0.5)

BODY = b'{"type":"noop","payload":{"number":7}}'
SUBMITTED = Request("POST", "/v1/jobs", 201, BODY)
ECHOED = Request("POST", ECHO, 200, BODY)
ECHO_SIDE, SUBMIT_SIDE = "http: echo", "http: submit"
BULK_SIDE, BATCH_SIDE = "http: bulk in process", "http: batch"


def measure(bench: Bench, names: AbstractSet[str]) -> list[Figure]:
    """Return the figures among *names*, of one server on one store."""
    figures: list[Figure] = []
    with bench.new_store() as url, serving(bench, url) as served:
        if "http-submit" in names:
            figures += _singles(bench, served)
        if "http-batch" in names:
            figures.append(_batches(bench, served, url))
    return figures


def _singles(bench: Bench, served: Served) -> list[Figure]:
    count = bench.sizes.jobs
    costs: dict[str, list[float]] = {ECHO_SIDE: [], SUBMIT_SIDE: []}
    waits: list[float] = []

    def rate(side: str, request: Request) -> float:
        found = served.ask(request, connections=CONNECTIONS, count=count)
        costs[side].append(found.cpu_seconds / count * 1e6)
        if side == SUBMIT_SIDE:
            waits.append(median(found.timed.latencies) * 1e3)
        return count / found.timed.seconds

    for request in (ECHOED, SUBMITTED):  # unmeasured, so that all is loaded and open
        served.ask(request, connections=CONNECTIONS, count=count)
    rates = bench.in_turns(
        {
            ECHO_SIDE: partial(rate, ECHO_SIDE, ECHOED),
            SUBMIT_SIDE: partial(rate, SUBMIT_SIDE, SUBMITTED),
        }
    )
    both = pair(rates[SUBMIT_SIDE], rates[ECHO_SIDE])
    submit_cpu, echo_cpu = median(costs[SUBMIT_SIDE]), median(costs[ECHO_SIDE])
    return [
        Figure(
            name="http-submit",
            title=f"POST /v1/jobs, {CONNECTIONS} connections",
            unit="jobs/s",
            value=both.value,
            beside=both.beside,
            beside_what="echo",
            ratio=both.ratio,
            spread=both.spread,
            target=SUBMIT_TARGET,
            note=f"{served.means}; answered after {median(waits):.1f} ms in the median",
        ),
        Figure(
            name="http-submit.cpu",
            title="… server CPU of a request",
            unit="µs",
            value=submit_cpu,
            beside=echo_cpu,
            beside_what="echo",
            # A short round takes less than the processor's clock can tell.
            ratio=submit_cpu / echo_cpu if echo_cpu else None,
        ),
    ]


def _batches(bench: Bench, served: Served, url: str) -> Figure:
    size = min(BATCH, bench.sizes.jobs)
    payloads = [{"number": number} for number in range(size)]
    body = {"jobs": [{"type": "noop", "payload": payload} for payload in payloads]}
    request = Request("POST", "/v1/jobs/batch", 201, msgspec.json.encode(body))
    costs: list[float] = []

    def over_http() -> float:
        found = served.ask(request, connections=1, count=BATCHES)
        costs.append(found.cpu_seconds / (size * BATCHES) * 1e6)
        return size * BATCHES / found.timed.seconds

    with BenchApp(url) as app:

        def in_process() -> float:
            def work() -> None:
                for _ in range(BATCHES):
                    app.noop.submit_many(payloads)

            return size * BATCHES / bench.seconds(work)

        app.noop.submit_many(payloads)
        served.ask(request, connections=1, count=1)
        rates = bench.in_turns({BULK_SIDE: in_process, BATCH_SIDE: over_http})
    both = pair(rates[BATCH_SIDE], rates[BULK_SIDE])
    return Figure(
        name="http-batch",
        title=f"POST /v1/jobs/batch of {size:,}",
        unit="jobs/s",
        value=both.value,
        beside=both.beside,
        beside_what="in process",
        ratio=both.ratio,
        spread=both.spread,
        target=BATCH_TARGET,
        note=f"{median(costs):.1f} µs of the server's processor a job",
    )

"""What monitors and auditors read: health, metrics, figures, events and the audit log."""

from __future__ import annotations

import math
from functools import cache

import msgspec

from fencepost.actions.health import metrics_text
from fencepost.core.access.tokens import Role
from fencepost.core.bounds import DOCTOR_AGE
from fencepost.core.stats.statistics import Statistics
from fencepost.core.values.names import check_queue
from fencepost.http.operations.jobs import duration_of
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import ADMIN, ANYBODY, route, store_route
from fencepost.http.scope import check_queue_allowed
from fencepost.observe.metrics import CONTENT_TYPE, LIVE, READY, gauge
from fencepost.wire.control import PageQuery
from fencepost.wire.events import EventQuery, WireEventPage, event_view
from fencepost.wire.overview import (
    Findings,
    Health,
    ScaleQuery,
    ScaleReply,
    StatsQuery,
    WireActionPage,
)


@route("GET /health/live", "Does the process run?", Health, roles=ANYBODY)
async def live(_: Call[Nothing, Nothing]) -> Reply:
    """Answer, which shows that the event loop runs."""
    return Reply(Health("live"))


@route("GET /health/ready", "Can it serve requests now?", Health, "not_ready", roles=ANYBODY)
async def ready(call: Call[Nothing, Nothing]) -> Reply:
    """Say whether requests can be served: the store answers, and the server is not stopping."""
    verdict = await call.api.readiness.check(is_stopping=call.api.is_stopping)
    if not verdict.is_ok:
        why = "; ".join(verdict.reasons)
        raise HttpError(why, code="not_ready", headers={"retry-after": "1"})
    return Reply(Health("ready"))


@store_route("GET /metrics", "Read metrics, as Prometheus does", str, media_type=CONTENT_TYPE)
async def get_metrics(call: Call[Nothing, Nothing]) -> Reply:
    """Return the counters of this process and the figures of the store, for Prometheus."""
    verdict = await call.api.readiness.check(is_stopping=call.api.is_stopping)
    health = [gauge(LIVE, {(): 1}), gauge(READY, {(): verdict.is_ok})]
    return Reply(await metrics_text(call.session, health), media_type=CONTENT_TYPE)


@route("GET /openapi.json", "Read what this API is", dict, roles=ANYBODY)
async def get_document(_: Call[Nothing, Nothing]) -> Reply:
    """Return this document."""
    return Reply(_document())


@cache
def _document() -> bytes:
    # Made at the first request; also, the list of routes cannot import itself.
    from fencepost.http.openapi.document import document
    from fencepost.http.routes import ROUTES

    return msgspec.json.encode(document(ROUTES))


@store_route("GET /v1/stats", "See recent counts, rates and times", Statistics, "invalid_duration")
async def get_stats(call: Call[Nothing, StatsQuery]) -> Reply:
    """Return counts, and recent rates and times of wait and run, in all, by queue and by type."""
    # The more names there are, the more it computes: up to LANES_MAX of them.
    return Reply(await call.run_apart(call.actions.stats(duration_of(call.query.window))))


@store_route(
    "GET /v1/doctor", "See what the doctor finds", Findings, roles=(Role.READ, Role.OPERATE)
)
async def get_findings(call: Call[Nothing, Nothing]) -> Reply:
    """Return what an operator should know about the store, durability first."""
    found = await call.api.findings.read(DOCTOR_AGE)
    return Reply(Findings(at=call.session.clock.now(), findings=found))


@route(
    "GET /v1/scale/{queue}",
    "See how many workers a queue could use",
    ScaleReply,
    "invalid_duration invalid_job",
)
async def get_scale(call: Call[Nothing, ScaleQuery]) -> Reply:
    """Return how many slots a queue could use, for a program that starts and stops workers."""
    name = check_queue(call.path["queue"])
    check_queue_allowed(call.principal, name)
    hint = await call.run(call.actions.queues.scale(name, duration_of(call.query.target)))
    workers = math.ceil(hint.wanted_slots / call.query.concurrency)
    return Reply(ScaleReply(**msgspec.structs.asdict(hint), wanted_workers=workers))


@store_route("GET /v1/events", "List the events that were sent", WireEventPage, "invalid_event")
async def list_events(call: Call[Nothing, EventQuery]) -> Reply:
    """Return a page of the events that were sent, newest first."""
    query = call.query
    page = await call.run(call.actions.events.find(query.name, query.after, query.limit))
    return Reply(WireEventPage(events=[event_view(event) for event in page], next=page.next))


@store_route("GET /v1/audit", "See what operators did", WireActionPage, roles=ADMIN)
async def list_actions(call: Call[Nothing, PageQuery]) -> Reply:
    """Return a page of the audit log, newest first."""
    query = call.query
    page = await call.run(call.actions.audit.find(query.after, query.limit))
    return Reply(WireActionPage(actions=page.actions, next=page.next))

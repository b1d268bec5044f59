"""Routes for whoever watches over the process."""

from __future__ import annotations

from fencepost.http.operations import probes
from fencepost.http.routes.route import ANYBODY, READ, Route
from fencepost.observe.exposition import CONTENT_TYPE
from fencepost.wire.stats import Health

ROUTES = [
    Route(
        method="GET",
        path="/health/live",
        operation=probes.live,
        summary="Does the process run?",
        tag="health",
        roles=ANYBODY,
        replies={200: Health},
    ),
    Route(
        method="GET",
        path="/health/ready",
        operation=probes.ready,
        summary="Can it serve requests now?",
        tag="health",
        roles=ANYBODY,
        replies={200: Health},
        errors=("not_ready",),
    ),
    Route(
        method="GET",
        path="/metrics",
        operation=probes.get_metrics,
        summary="Read metrics, as Prometheus does",
        tag="health",
        roles=READ,
        is_store_wide=True,
        replies={200: str},
        media_type=CONTENT_TYPE,
    ),
    Route(
        method="GET",
        path="/openapi.json",
        operation=probes.get_document,
        summary="Read what this API is",
        tag="health",
        roles=ANYBODY,
        replies={200: dict},
    ),
]

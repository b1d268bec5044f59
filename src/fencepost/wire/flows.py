"""Flows, as they are submitted and as they are shown."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fencepost.core.bounds import PAGE_DEFAULT
from fencepost.core.flows.dependencies import Mode
from fencepost.core.flows.listing import FlowKind, FlowSummary
from fencepost.wire.bounds import HTTP_BATCH_MAX
from fencepost.wire.jobs import Accepted, JobSummary, Submission
from fencepost.wire.terms import (
    Cursor,
    NodeName,
    PageLimit,
    Strict,
)


class FlowBody(Strict, frozen=True, kw_only=True):
    """Jobs by name; ``after`` and ``after_any`` name jobs of the flow, or ids of stored jobs."""

    nodes: Annotated[
        dict[NodeName, Submission],
        Meta(extra_json_schema={"minProperties": 1, "maxProperties": HTTP_BATCH_MAX}),
    ]


class SubmittedFlow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored flow."""

    id: str
    jobs: dict[str, Accepted]
    """Each after the jobs that it waits for."""


class FlowEdge(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a flow that waits, or waited, for another."""

    source: str = msgspec.field(name="from")
    """The name of the job that is waited for."""
    target: str = msgspec.field(name="to")
    mode: Mode
    """Whether all must complete, any must end, or all must end."""


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of a flow."""

    id: str
    jobs: dict[str, JobSummary]
    edges: list[FlowEdge] = []
    """Between these jobs; each job's in the order in which it names them."""


class FlowQuery(Strict, frozen=True, kw_only=True):
    """Which flows, and which page of them."""

    kind: FlowKind | None = None
    """``live``: with jobs that have not ended; ``failed``: with failed jobs or dead letters."""
    after: Cursor | None = None
    """The ``next`` of the previous page."""
    limit: PageLimit = PAGE_DEFAULT


class WireFlowPage(msgspec.Struct, frozen=True, kw_only=True):
    """Flows, newest first, and where the next page begins.

    A page ends when it has counted 5,000 jobs: it may have fewer flows than were asked for, or
    none, while ``next`` says that there are more.
    """

    flows: list[FlowSummary]
    next: str | None

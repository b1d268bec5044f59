"""Flows on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from fencepost.core.bounds import HTTP_BATCH_MAX
from fencepost.wire.jobs import Accepted, JobSummary, Submission
from fencepost.wire.terms import NodeName


class FlowBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Jobs by name; ``after`` and ``after_any`` name others of the flow, or stored jobs by id."""

    nodes: Annotated[
        dict[NodeName, Submission],
        Meta(extra_json_schema={"minProperties": 1, "maxProperties": HTTP_BATCH_MAX}),
    ]


class SubmittedFlow(msgspec.Struct, frozen=True, kw_only=True):
    """A flow that is stored."""

    id: str
    jobs: dict[str, Accepted]
    """Each behind those that it waits for."""


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    """A flow as it stands."""

    id: str
    jobs: dict[str, JobSummary]


class Count(msgspec.Struct, frozen=True):
    """How many jobs it concerned."""

    count: int

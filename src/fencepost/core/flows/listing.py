"""Flows as a list shows them: how many of their jobs are in which state, and since when."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX
from fencepost.core.display import shown
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.values.names import check_count, check_flow
from fencepost.errors import ConfigurationError, InvalidJobError

FlowKind = Literal["live", "failed"]
"""Flows with jobs that have not ended, or with jobs that have failed for good."""
_KINDS = ("live", "failed")
_CURSOR = b"w1:"


class FlowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A flow and its jobs by state. A dead letter that was replayed is not counted."""

    id: str
    correlation_id: str | None = None
    """Of its jobs; of one of them if they differ."""
    type: str
    """Of its oldest job."""
    counts: dict[State, int]
    created_at: datetime
    """When its oldest job was submitted; jobs that were pruned are not known."""
    started_at: datetime | None = None
    """When the first of its jobs started; of one that was retried, its last attempt counts."""
    ended_at: datetime | None = None
    """When the last of its jobs ended; None while it is live."""
    is_live: bool
    """Whether a job of it has not ended."""
    is_complete: bool = True
    """Whether all of its jobs are counted; of a flow with more than 5,000, only so many are."""

    @property
    def has_failed(self) -> bool:
        """Whether a job of it has failed for good."""
        return any(self.counts.get(state) for state in DEAD)

    def is_a(self, kind: FlowKind | None) -> bool:
        """Return whether a list of *kind* has it; None is the list of all."""
        if kind is None:
            return True
        return self.is_live if kind == "live" else self.has_failed


class FlowRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which flows, how many, and after which; newest first."""

    limit: int = PAGE_DEFAULT
    after: str | None = None
    """Only flows whose ids come before this one."""
    kind: FlowKind | None = None
    queues: tuple[str, ...] | None = None
    """Count only jobs of these queues, and leave out flows without such jobs; None means all."""


class FlowGroup(NamedTuple):
    """Jobs of one flow that have queue, type and state in common."""

    type: str
    state: State
    jobs: int
    created_at: datetime
    """The first of these times, as of the next."""
    started_at: datetime | None
    completed_at: datetime | None
    """The last one."""
    first: int
    """The number of the oldest of them."""
    correlation_id: str | None


def summary_of(flow_id: str, groups: Iterable[FlowGroup], *, is_complete: bool) -> FlowSummary:
    """Return a flow of which there are *groups*, at least one."""
    ordered = sorted(groups, key=lambda group: group.first)
    counts: dict[State, int] = {}
    for group in ordered:
        counts[group.state] = counts.get(group.state, 0) + group.jobs
    is_live = any(not state.is_terminal for state in counts)
    ends = [group.completed_at for group in ordered if group.completed_at is not None]
    oldest = ordered[0]
    return FlowSummary(
        id=flow_id,
        correlation_id=oldest.correlation_id,
        type=oldest.type,
        counts=in_order_of_states(counts),
        created_at=min(group.created_at for group in ordered),
        started_at=_first(group.started_at for group in ordered),
        ended_at=None if is_live else max(ends, default=None),
        is_live=is_live,
        is_complete=is_complete,
    )


def joined(one: FlowSummary, other: FlowSummary) -> FlowSummary:
    """Return a flow of which two parts of a store have jobs."""
    oldest = min(one, other, key=lambda each: each.created_at)
    is_live = one.is_live or other.is_live
    ends = [each.ended_at for each in (one, other) if each.ended_at is not None]
    counts = {
        state: one.counts.get(state, 0) + other.counts.get(state, 0)
        for state in {*one.counts, *other.counts}
    }
    return replace(
        oldest,
        counts=in_order_of_states(counts),
        started_at=_first((one.started_at, other.started_at)),
        ended_at=None if is_live else max(ends, default=None),
        is_live=is_live,
        is_complete=one.is_complete and other.is_complete,
    )


def in_order_of_states(counts: Mapping[State, int]) -> dict[State, int]:
    """Return counts in the order of a job's life."""
    return {state: counts[state] for state in State if counts.get(state)}


def _first(times: Iterable[datetime | None]) -> datetime | None:
    return min((at for at in times if at is not None), default=None)


def make_flow_request(
    *, limit: Any, after: str | None, kind: Any, queues: Iterable[str] | None = None
) -> FlowRequest:
    """Check what a user asks for, or raise ConfigurationError."""
    if kind is not None and kind not in _KINDS:
        raise ConfigurationError(f"flows are {' or '.join(_KINDS)}, got {shown(kind)}")
    return FlowRequest(
        limit=check_count(limit, "limit", 1, PAGE_MAX),
        after=None if after is None else decode_flow_cursor(after),
        kind=kind,
        queues=None if queues is None else tuple(sorted(queues)),
    )


def encode_flow_cursor(flow_id: str) -> str:
    """Return the opaque cursor of the page that follows a flow."""
    return base64.urlsafe_b64encode(_CURSOR + flow_id.encode()).decode().rstrip("=")


def decode_flow_cursor(text: str) -> str:
    """Return the id behind a cursor, or raise ConfigurationError."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        flow_id = check_flow(raw.removeprefix(_CURSOR).decode())
        if encode_flow_cursor(flow_id) != text:
            raise ValueError(text)
        return flow_id
    except (ValueError, TypeError, binascii.Error, InvalidJobError):
        raise ConfigurationError(
            f"{shown(text)} is not a cursor; pass the `next` of an earlier page"
        ) from None

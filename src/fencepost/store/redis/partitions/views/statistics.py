"""Counts for charts, flows and refused writes of all partitions; only samples are in the home."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.flows.listing import FlowRequest, FlowSummary, joined
from fencepost.core.refusals import NewRefusal, RefusedWrite
from fencepost.core.stats.series import LaneTotals
from fencepost.store.interface.records.overview import FlowPage
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions.hub import Hub, PartitionCall
from fencepost.store.redis.partitions.numbers import HIDDEN


def lane_totals(hub: Hub) -> Plan[list[LaneTotals]]:
    """Return the counts of every lane of every partition; a lane is in one of them."""
    numbers = sorted((yield from hub.refresh()))
    calls = [PartitionCall(hub.at(number), hub.at(number).series.totals()) for number in numbers]
    parts: list[list[LaneTotals]] = (yield from hub.each(calls)) if calls else []
    return [lane for part in parts for lane in part if lane.queue not in HIDDEN]


def record_refusals(hub: Hub, refusals: Sequence[NewRefusal]) -> Plan[None]:
    """Keep each refusal beside its job."""
    places = yield from hub.whereabouts([refusal.job_id for refusal in refusals])
    by_place: dict[int, list[NewRefusal]] = {}
    for place, refusal in zip(places, refusals, strict=True):
        by_place.setdefault(place, []).append(refusal)
    calls = [
        PartitionCall(hub.at(place), hub.at(place).refusals.record(r))
        for place, r in by_place.items()
    ]
    if calls:
        yield from hub.each(calls)


def list_refusals(hub: Hub, job_id: str) -> Plan[list[RefusedWrite]]:
    """Return the refusals of a job."""
    (number,) = yield from hub.whereabouts([job_id])
    return (yield from hub.on(number, hub.at(number).refusals.list(job_id)))


def count_refusals(hub: Hub) -> Plan[int]:
    """Add up the refusals of all partitions."""
    numbers = sorted((yield from hub.refresh()))
    calls = [PartitionCall(hub.at(number), hub.at(number).refusals.total()) for number in numbers]
    return sum((yield from hub.each(calls))) if calls else 0


def flows(hub: Hub, request: FlowRequest) -> Plan[FlowPage]:
    """Return one page of the flows of all partitions; one may have jobs in several.

    Each partition is asked once, so that a page may be short.
    """
    numbers = sorted((yield from hub.refresh()))
    asked = replace(request, kind=None)
    calls = [PartitionCall(at, at.overview.flows(asked)) for at in map(hub.at, numbers)]
    parts: list[FlowPage] = (yield from hub.each(calls)) if calls else []
    # Down to here every partition has been read.
    end = max((part.next for part in parts if part.next is not None), default=None)
    found: dict[str, FlowSummary] = {}
    for part in parts:
        for flow in part.flows:
            if end is None or flow.id >= end:
                known = found.get(flow.id)
                found[flow.id] = flow if known is None else joined(known, flow)
    wanted = [found[name] for name in sorted(found, reverse=True) if found[name].is_a(request.kind)]
    if len(wanted) > request.limit:
        return FlowPage(wanted[: request.limit], wanted[request.limit - 1].id)
    return FlowPage(wanted, end)

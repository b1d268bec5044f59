"""Counts for charts, and refused writes: both are where the jobs are, samples are at home."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.refusals import NewRefusal, RefusedWrite
from fencepost.core.series import LaneTotals
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

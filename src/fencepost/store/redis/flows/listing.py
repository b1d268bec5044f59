"""Lists of flows: a sorted set has the ids of all flows that have jobs, in the order of the ids."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.bounds import FLOW_JOBS_MAX
from fencepost.core.flows.listing import FlowGroup, FlowRequest, summary_of
from fencepost.core.values.times import from_us, from_us_or_none
from fencepost.store.interface.records.overview import FlowPage
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, number_of, read
from fencepost.store.sql.flows import FLOW_PORTION, FlowPortion, chosen, flow_page


def flows(env: Env, request: FlowRequest) -> Plan[FlowPage]:
    """Return one page of the flows."""

    def portion(after: str | None) -> Plan[FlowPortion]:
        return _portion(env, after, request.queues)

    return flow_page(request, portion)


def _portion(env: Env, after: str | None, queues: Sequence[str] | None) -> Plan[FlowPortion]:
    top = b"+" if after is None else b"(" + after.encode()
    page = [b"ZREVRANGEBYLEX", env.key("flows"), top, b"-", b"LIMIT", 0, FLOW_PORTION + 1]
    _, names = yield from read(env, page)
    ids = [name.decode() for name in names]
    keys = {each: env.key("flow", each) for each in ids}
    _, *counts = yield from read(env, *([b"ZCARD", keys[each]] for each in ids))
    some = chosen(list(zip(ids, counts, strict=True)))
    last = FLOW_JOBS_MAX - 1
    _, *parts = yield from read(env, *([b"ZREVRANGE", keys[each], 0, last] for each, _ in some))
    numbers = {
        flow_id: list(map(number_of, part)) for (flow_id, _), part in zip(some, parts, strict=True)
    }
    jobs = yield from Unit(env).jobs(seq for part in numbers.values() for seq in part)
    found = {}
    for flow_id, size in some:
        own = [jobs[seq] for seq in numbers[flow_id] if seq in jobs]
        replayed = {kept.document.replay_of for kept in own}
        groups = [
            _group(kept)
            for kept in own
            if kept.document.id not in replayed and (queues is None or kept.queue in queues)
        ]
        if groups:
            found[flow_id] = summary_of(flow_id, groups, is_complete=size <= FLOW_JOBS_MAX)
    looked = sum(size for _, size in some)
    return FlowPortion([each for each, _ in some], found, looked, len(some) < len(ids))


def _group(kept: Kept) -> FlowGroup:
    document, lease = kept.document, kept.lease
    return FlowGroup(
        document.type,
        kept.state,
        1,
        from_us(document.created_at),
        from_us_or_none(document.started_at if lease is None else lease.started_at),
        from_us_or_none(document.completed_at),
        kept.seq,
        document.correlation_id,
    )

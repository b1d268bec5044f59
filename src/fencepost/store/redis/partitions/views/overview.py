"""Queues, types and ended jobs of all partitions, merged into one view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from fencepost.core.job.lifecycle import State
from fencepost.core.stats.statistics import EndedJob
from fencepost.store.interface.records.overview import EndedPage, Finding, QueueView, TypeView
from fencepost.store.plan import Plan
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.partitions.hub import HOME, LOOK, Hub, PartitionCall
from fencepost.store.redis.partitions.numbers import (
    HIDDEN,
    OUTBOX,
)
from fencepost.store.redis.partitions.outbox.entries import (
    late,
)
from fencepost.store.redis.partitions.views.pages import (
    beyond,
    place_of,
)
from fencepost.store.redis.records import overview
from fencepost.store.sql.codec import BY_NUMBER


def queues(hub: Hub, names: Sequence[str] | None = None) -> Plan[list[QueueView]]:
    """Return every queue of every partition, by name."""
    numbers = sorted((yield from hub.refresh()))
    calls = [
        PartitionCall(hub.at(number), hub.at(number).overview.queues(names)) for number in numbers
    ]
    found: dict[str, QueueView] = {}
    for part in (yield from hub.each(calls)) if calls else ():
        for view in part:
            if view.name in HIDDEN:
                continue
            known = found.get(view.name)
            found[view.name] = view if known is None else _joined(known, view)
    return [found[name] for name in sorted(found)]


def _joined(one: QueueView, other: QueueView) -> QueueView:
    """Return the view of a queue of which several partitions have a part."""
    times = [at for at in (one.oldest_at, other.oldest_at) if at is not None]
    return replace(
        one,
        is_paused=one.is_paused or other.is_paused,
        counts=_sum(one.counts, other.counts),
        claimable=_sum(one.claimable, other.claimable),
        oldest_at=min(times) if times else None,
    )


def _sum(one: Mapping[Any, int], other: Mapping[Any, int]) -> dict[Any, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}


def types(hub: Hub, names: Sequence[str] | None = None) -> Plan[list[TypeView]]:
    """Return every type of every partition, by name."""
    numbers = [HOME, *sorted((yield from hub.refresh()))]
    calls = [hub.at(number).plan(LOOK, _types, names) for number in numbers]
    found: dict[str, TypeView] = {}
    for part in (yield from hub.each(calls)):
        for view in part:
            known = found.get(view.name)
            counts = view.counts if known is None else _sum(known.counts, view.counts)
            found[view.name] = replace(view if known is None else known, counts=counts)
    return [found[name] for name in sorted(found)]


def _types(env: Env, names: Sequence[str] | None) -> Plan[list[TypeView]]:
    """Return the types of a partition, without mirrors and entries."""
    views = yield from overview.types(env, names)
    _, lanes, flat = yield from read(
        env, [b"HKEYS", env.key("lanes")], [b"HGETALL", env.key("counts")]
    )
    own = {type_ for queue, type_ in (name.decode().split("\n") for name in lanes)}
    hidden: dict[tuple[str, State], int] = {}
    for name, total in zip(flat[::2], flat[1::2], strict=True):
        number, queue, type_ = name.decode().split("\n")
        if queue in HIDDEN:
            at = (type_, BY_NUMBER[int(number)])
            hidden[at] = hidden.get(at, 0) + int(total)
        else:
            own.add(type_)
    entries = {type_ for queue, type_ in (n.decode().split("\n") for n in lanes) if queue == OUTBOX}
    found = []
    for view in views:
        left = {
            state: total - hidden.get((view.name, state), 0)
            for state, total in view.counts.items()
            if total > hidden.get((view.name, state), 0)
        }
        has_setting = view.is_paused or view.rate is not None
        if view.name not in entries and (view.name in own or has_setting):
            found.append(replace(view, counts=left))
    return found


def ended(
    hub: Hub, since: datetime, *, limit: int, after: int | None = None, newest_first: bool = False
) -> Plan[EndedPage]:
    """Return jobs of all partitions in the order of their end."""
    found: list[EndedJob] = []
    has_more = False
    for number in sorted((yield from hub.refresh())):
        start = None if after is None else beyond(after, number, newest_first=newest_first)
        own: list[EndedJob] = []
        while True:
            asked = hub.at(number).overview.ended(
                since, limit=limit, after=start, newest_first=newest_first
            )
            page: EndedPage = yield from hub.on(number, asked)
            own += [job for job in page.jobs if job.queue not in HIDDEN]
            start = page.next
            if start is None or len(own) >= limit:
                break
        has_more |= start is not None
        found += [replace(job, position=place_of(job.position, number)) for job in own]
    found.sort(key=lambda job: job.position, reverse=newest_first)
    shown = found[:limit]
    is_last = len(found) <= limit and not has_more
    return EndedPage(shown, None if is_last or not shown else shown[-1].position)


def inspect(hub: Hub) -> Plan[list[Finding]]:
    """Return the findings of the home, and of every other partition those that need attention."""
    found: list[Finding] = yield from hub.on(HOME, hub.home.overview.inspect())
    found = [each for each in found if each.code != "unserved"]
    known = sorted((yield from hub.refresh()))
    behind: list[str] = []
    for number in known:
        part: list[Finding] = yield from hub.on(number, hub.at(number).overview.inspect())
        found += [
            replace(each, text=f"partition {number}: {each.text}")
            for each in part
            if each.level in ("warn", "fail") and each not in found
        ]
        behind += [str(number)] if (yield from hub.ask(number, LOOK, late)) else []
    found.append(Finding("ok", "partitions", f"{len(known)} partitions have had jobs"))
    if behind:
        text = f"entries older than an hour were not delivered by partitions {', '.join(behind)}"
        found.append(Finding("warn", "outbox", text))
    return found

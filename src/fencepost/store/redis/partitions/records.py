"""What the home keeps, what holds in all partitions, and what each has a part of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from fencepost.core.job.lifecycle import State
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.core.statistics import EndedJob
from fencepost.errors import ConfigurationError
from fencepost.store.interface.overview import EndedPage, Finding, QueueView, TypeView
from fencepost.store.interface.queue import Moved
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.plan import Plan
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.partitions.delivery import (
    deliver_all,
    deliver_quietly,
    sweep_marks,
)
from fencepost.store.redis.partitions.hub import HOME, LOOK, Hub, PartitionCall
from fencepost.store.redis.partitions.numbers import (
    HIDDEN,
    OUTBOX,
    SPREAD,
    partition_of,
)
from fencepost.store.redis.partitions.outbox import (
    has_entries,
    late,
    without_entries,
)
from fencepost.store.redis.partitions.pages import (
    beyond,
    place_of,
)
from fencepost.store.redis.records import overview
from fencepost.store.sql.codec import BY_NUMBER

CURSOR_BITS = 56
"""The bits of a position of pruning within a partition; the partition is above them."""

# Settings: those of a queue are in its partition, all others in the home and in every partition.


def pause(hub: Hub, scope: Scope, name: str) -> Plan[None]:
    """Hand out no more jobs of a queue or a type."""
    yield from _set(hub, "pause", scope, name)


def resume(hub: Hub, scope: Scope, name: str) -> Plan[None]:
    """Hand out jobs of a queue or a type again."""
    yield from _set(hub, "resume", scope, name)


def _set(hub: Hub, method: str, scope: Scope, name: str) -> Plan[None]:
    if scope is Scope.QUEUE and name in HIDDEN:
        raise ConfigurationError(f"{name!r} is a queue of Fencepost's own; leave it alone")
    if scope is Scope.QUEUE and name not in SPREAD:
        number = partition_of(name)
        yield from hub.found([number])
        yield from hub.on(number, getattr(hub.at(number).settings, method)(scope, name))
        return
    yield from everywhere(hub, lambda store: getattr(store.settings, method)(scope, name))


def everywhere(hub: Hub, make: Any) -> Plan[None]:
    """Change the home, and then all partitions that it knows: none that comes is left out."""
    yield from hub.each([PartitionCall(hub.home, make(hub.home))])
    numbers = sorted((yield from hub.refresh()))
    calls = [PartitionCall(hub.at(number), make(hub.at(number))) for number in numbers]
    if calls:
        yield from hub.each(calls)


def limit(hub: Hub, scope: Scope, name: str, max_running: int | None) -> Plan[None]:
    """Limit how many jobs of a queue run at once."""
    if scope is Scope.APP:
        if max_running is not None:
            raise ConfigurationError(
                "with partition=queue, the jobs of the whole app cannot be counted in one step, so "
                "they cannot be limited; limit its queues"
            )
        return
    if name in SPREAD:
        raise ConfigurationError(
            f"with partition=queue, every partition has a part of {name!r}; it cannot be limited"
        )
    number = partition_of(name)
    yield from hub.found([number])
    yield from hub.on(number, hub.at(number).settings.limit(scope, name, max_running))


def limit_types(hub: Hub, limits: Mapping[str, TypeLimits]) -> Plan[None]:
    """Set limits of types, in every partition."""
    yield from everywhere(hub, lambda store: store.settings.limit_types(limits))


def app_limit(hub: Hub) -> Plan[int | None]:
    """Return None: there is no such limit."""
    yield from ()
    return None


# Upkeep: in every partition, as far as it is available.


def recover(hub: Hub, limit: int) -> Plan[list[Moved]]:
    """Take back jobs whose leases ran out."""
    return (yield from _upkeep(hub, "recover", limit))


def promote(hub: Hub, limit: int) -> Plan[list[Moved]]:
    """Make due jobs claimable, and deliver what outboxes hold."""
    moved = yield from _upkeep(hub, "promote", limit)
    yield from deliver_all(hub)
    return moved


def expire(hub: Hub, limit: int) -> Plan[list[Moved]]:
    """Dead-letter live jobs past their lifetime."""
    return (yield from _upkeep(hub, "expire", limit))


def _upkeep(hub: Hub, name: str, limit: int) -> Plan[list[Moved]]:
    numbers = [number for number in sorted((yield from hub.refresh())) if hub.is_well(number)]
    calls = [
        PartitionCall(hub.at(number), getattr(hub.at(number).upkeep, name)(limit))
        for number in numbers
    ]
    moves: list[Moved] = []
    ended: list[int] = []
    for number, reply in zip(numbers, (yield from hub.attempt(calls)), strict=True):
        hub.judge(number, reply)
        if isinstance(reply, BaseException):
            if len(numbers) == 1:
                raise reply
            continue
        if has_entries(reply):
            ended.append(number)
        moves += [
            replace(move, followed=without_entries(move.followed))
            for move in without_entries(reply)
        ]
    yield from deliver_quietly(hub, ended)
    return moves


def prune(hub: Hub, request: PruneRequest) -> Plan[Pruned]:
    """Delete terminal jobs that were kept long enough, one partition after another."""
    numbers = sorted((yield from hub.refresh()))
    first, after = request.after >> CURSOR_BITS, request.after & ((1 << CURSOR_BITS) - 1)
    ahead = [number for number in numbers if number >= first]
    if not ahead:
        return Pruned(0, None)
    number = ahead[0]
    if number != first:
        after = 0
    if not after:
        yield from sweep_marks(hub, number)
    pruned: Pruned = yield from hub.on(
        number, hub.at(number).upkeep.prune(replace(request, after=after))
    )
    if pruned.next is not None:
        return Pruned(pruned.count, number << CURSOR_BITS | pruned.next)
    if len(ahead) == 1:
        return Pruned(pruned.count, None)
    return Pruned(pruned.count, ahead[1] << CURSOR_BITS)


def tidy(hub: Hub) -> Plan[None]:
    """Do nothing: Redis needs no tidying."""
    yield from ()


# Overview.


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
    """Look at the home and at every partition; of these, say what is not in order."""
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
        text = f"entries of an hour ago were not delivered by partitions {', '.join(behind)}"
        found.append(Finding("warn", "outbox", text))
    return found

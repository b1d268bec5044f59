"""Settings and upkeep over partitions: done in the home, in all, or in each for its part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from fencepost.core.limits.type_limits import TypeLimits
from fencepost.errors import ConfigurationError, StoreError
from fencepost.store.interface.queue import Moved
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import Pruned, PruneRequest
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions.hub import HOME, Hub, PartitionCall
from fencepost.store.redis.partitions.numbers import (
    HIDDEN,
    SPREAD,
    partition_of,
)
from fencepost.store.redis.partitions.outbox.delivery import (
    deliver_all,
    deliver_quietly,
    sweep_marks,
)
from fencepost.store.redis.partitions.outbox.entries import (
    has_entries,
    without_entries,
)
from fencepost.store.redis.partitions.quotas import set_limit

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
    """Limit how many jobs of a queue, or of the whole app, run at once."""
    if scope is Scope.APP:
        yield from set_limit(hub, max_running)
        return
    if name in SPREAD:
        raise ConfigurationError(
            f"with partition=queue, every partition has a part of {name!r}; it cannot be limited"
        )
    number = partition_of(name)
    yield from hub.found([number])
    yield from hub.on(number, hub.at(number).settings.limit(scope, name, max_running))


def limit_types(hub: Hub, limits: Mapping[str, TypeLimits]) -> Plan[None]:
    """Set limits of types, in every partition.

    One that is away takes them over when it is back, before this process claims from it: a worker
    that starts meanwhile runs the jobs of the others.
    """
    yield from hub.on(HOME, hub.home.settings.limit_types(limits))
    numbers = sorted((yield from hub.refresh()))
    asked = [number for number in numbers if hub.is_well(number)]
    for number in set(numbers).difference(asked):
        hub.leave_behind(number)
    calls = [
        PartitionCall(hub.at(number), hub.at(number).settings.limit_types(limits))
        for number in asked
    ]
    replies = (yield from hub.attempt(calls)) if calls else []
    for number, reply in zip(asked, replies, strict=True):
        hub.judge(number, reply)
        if isinstance(reply, StoreError):
            hub.leave_behind(number)
        elif isinstance(reply, BaseException):
            raise reply


def app_limit(hub: Hub) -> Plan[int | None]:
    """Return the limit of the whole app, which the home has."""
    return (yield from hub.on(HOME, hub.home.settings.app_limit()))


# Upkeep: in every partition, as far as it is available.


def recover(hub: Hub, limit: int, unstarted: Collection[str] = ()) -> Plan[list[Moved]]:
    """Take back jobs whose leases ran out."""
    return (yield from _upkeep(hub, "recover", limit, unstarted))


def promote(hub: Hub, limit: int) -> Plan[list[Moved]]:
    """Make due jobs claimable, and deliver what outboxes hold."""
    moved = yield from _upkeep(hub, "promote", limit)
    yield from deliver_all(hub)
    return moved


def expire(hub: Hub, limit: int) -> Plan[list[Moved]]:
    """Dead-letter live jobs past their lifetime."""
    return (yield from _upkeep(hub, "expire", limit))


def _upkeep(hub: Hub, name: str, *given: object) -> Plan[list[Moved]]:
    numbers = [number for number in sorted((yield from hub.refresh())) if hub.is_well(number)]
    calls = [
        PartitionCall(hub.at(number), getattr(hub.at(number).upkeep, name)(*given))
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

"""An index: which function does which operation of the memory store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from fencepost.store.interface.access import AccessFacet
from fencepost.store.interface.audit import AuditFacet
from fencepost.store.interface.cluster import ClusterFacet
from fencepost.store.interface.control import ControlFacet
from fencepost.store.interface.crons import CronsFacet
from fencepost.store.interface.events import EventsFacet
from fencepost.store.interface.facet import Binder, BoundFacet
from fencepost.store.interface.joins import JoinsFacet
from fencepost.store.interface.overview import OverviewFacet
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.store import Facets
from fencepost.store.interface.transfer import TransferFacet
from fencepost.store.interface.upkeep import UpkeepFacet
from fencepost.store.memory.flows import spawn as spawns
from fencepost.store.memory.jobs import claim as claims
from fencepost.store.memory.jobs import control as controls
from fencepost.store.memory.jobs import edit as edits
from fencepost.store.memory.jobs import enqueue as entries
from fencepost.store.memory.jobs import read as views
from fencepost.store.memory.jobs import settle as leases
from fencepost.store.memory.jobs import upkeep as chores
from fencepost.store.memory.limits import rates as rates_by_type
from fencepost.store.memory.limits import settings as limits
from fencepost.store.memory.records import access as keys
from fencepost.store.memory.records import cluster as members
from fencepost.store.memory.records import crons as schedules
from fencepost.store.memory.records import doctor, transfer
from fencepost.store.memory.records import ended as ends
from fencepost.store.memory.records import events as records
from fencepost.store.memory.world import MemoryWorld
from fencepost.store.plan import Operation, Plan

T = TypeVar("T")
P = ParamSpec("P")

_bind: Binder[MemoryWorld] = Binder()


def bound(
    act: Callable[Concatenate[MemoryWorld, P], T],
) -> Callable[Concatenate[Any, P], Operation[T]]:
    """Bind a function over the world, as a plan without statements."""

    def plan(world: MemoryWorld, /, *args: P.args, **kwargs: P.kwargs) -> Plan[T]:
        yield from ()
        return act(world, *args, **kwargs)

    return _bind(plan)


def facets(world: MemoryWorld, joins: JoinsFacet) -> Facets:
    """Return the operations over *world*."""
    return Facets(
        queue=MemoryQueue(world),
        control=MemoryControl(world),
        reader=MemoryReader(world),
        settings=MemorySettings(world),
        upkeep=MemoryUpkeep(world),
        crons=MemoryCrons(world),
        access=MemoryAccess(world),
        audit=MemoryAudit(world),
        cluster=MemoryCluster(world),
        overview=MemoryOverview(world),
        events=MemoryEvents(world),
        transfer=MemoryTransfer(world),
        joins=joins,
    )


class MemoryQueue(BoundFacet[MemoryWorld], QueueFacet):
    enqueue = bound(entries.enqueue)
    claim = bound(claims.claim)
    heartbeat = bound(leases.heartbeat)
    settle = bound(leases.settle)
    save = bound(leases.save)
    spawn = bound(spawns.spawn)


class MemoryControl(BoundFacet[MemoryWorld], ControlFacet):
    cancel = bound(controls.cancel)
    retry = bound(entries.retry)
    edit = bound(edits.edit)
    replay = bound(entries.replay)
    discard = bound(controls.discard)


class MemoryReader(BoundFacet[MemoryWorld], ReaderFacet):
    get = bound(views.get)
    locate = bound(views.locate)
    find = bound(views.find)
    count = bound(views.count)
    attempts = bound(views.attempts)
    dependencies = bound(views.dependencies)
    dependents = bound(views.dependents)
    situation = bound(views.situation)
    dead_letters = bound(views.dead_letters)


class MemorySettings(BoundFacet[MemoryWorld], SettingsFacet):
    pause = bound(limits.pause)
    resume = bound(limits.resume)
    limit = bound(limits.limit)
    set_rates = bound(rates_by_type.set_rates)
    app_limit = bound(limits.app_limit)


class MemoryUpkeep(BoundFacet[MemoryWorld], UpkeepFacet):
    recover = bound(chores.recover)
    promote = bound(chores.promote)
    expire = bound(chores.expire)
    prune = bound(controls.prune)
    tidy = bound(chores.tidy)


class MemoryCrons(BoundFacet[MemoryWorld], CronsFacet):
    declare = bound(schedules.declare)
    fire = bound(schedules.fire)
    pause = bound(schedules.pause)
    resume = bound(schedules.resume)
    forget = bound(schedules.forget)
    list = bound(schedules.crons)


class MemoryAccess(BoundFacet[MemoryWorld], AccessFacet):
    tokens = bound(keys.tokens)
    add = bound(keys.add)
    revoke = bound(keys.revoke)


class MemoryAudit(BoundFacet[MemoryWorld], AuditFacet):
    record = bound(keys.record)
    prune = bound(keys.prune)
    list = bound(keys.actions)


class MemoryCluster(BoundFacet[MemoryWorld], ClusterFacet):
    announce = bound(members.announce)
    retire = bound(members.retire)
    workers = bound(members.workers)
    lead = bound(members.lead)
    resign = bound(members.resign)


class MemoryOverview(BoundFacet[MemoryWorld], OverviewFacet):
    queues = bound(views.queues)
    types = bound(views.types)
    ended = bound(ends.ended)
    inspect = bound(doctor.examine)


class MemoryEvents(BoundFacet[MemoryWorld], EventsFacet):
    send = bound(records.send)
    prune = bound(records.prune)
    load = bound(records.load)
    list = bound(records.events)


class MemoryTransfer(BoundFacet[MemoryWorld], TransferFacet):
    dump = bound(transfer.dump)
    load = bound(transfer.load)
    accept_jobs = bound(transfer.accept_jobs)

"""An index: which plan runs which operation of a partitioned store."""

from __future__ import annotations

from typing import Any

from fencepost.store.interface.control import ControlFacet, ReplaysFacet
from fencepost.store.interface.facet import Binder, BoundFacet
from fencepost.store.interface.joins import JoinsFacet
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.records.access import AccessFacet, AuditFacet
from fencepost.store.interface.records.cluster import ClusterFacet
from fencepost.store.interface.records.crons import CronsFacet
from fencepost.store.interface.records.events import EventsFacet
from fencepost.store.interface.records.overview import OverviewFacet
from fencepost.store.interface.records.refusals import RefusalsFacet
from fencepost.store.interface.records.series import SeriesFacet
from fencepost.store.interface.records.transfer import TransferFacet
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.store import Facets
from fencepost.store.interface.upkeep import UpkeepFacet
from fencepost.store.plan import Plan
from fencepost.store.redis.partitions import (
    arrivals,
    control,
    leases,
    records,
    spawn,
    submit,
    transfer,
)
from fencepost.store.redis.partitions.hub import HOME, Hub
from fencepost.store.redis.partitions.views import overview, reader, statistics

bound: Binder[Hub] = Binder()


def at_home(facet: str, method: str) -> Any:
    """Return the operation of this name, which is the home's own."""

    def plan(hub: Hub, *args: Any, **kwargs: Any) -> Plan[Any]:
        operation = getattr(getattr(hub.home, facet), method)(*args, **kwargs)
        return (yield from hub.on(HOME, operation))

    return bound(plan)


def facets(hub: Hub, joins: JoinsFacet) -> Facets:
    """Return the operations."""
    return Facets(
        queue=PartitionedQueue(hub),
        control=PartitionedControl(hub),
        replays=PartitionedReplays(hub),
        reader=PartitionedReader(hub),
        settings=PartitionedSettings(hub),
        upkeep=PartitionedUpkeep(hub),
        crons=PartitionedCrons(hub),
        access=PartitionedAccess(hub),
        audit=PartitionedAudit(hub),
        cluster=PartitionedCluster(hub),
        overview=PartitionedOverview(hub),
        events=PartitionedEvents(hub),
        transfer=PartitionedTransfer(hub),
        series=PartitionedSeries(hub),
        refusals=PartitionedRefusals(hub),
        joins=joins,
    )


class PartitionedQueue(BoundFacet[Hub], QueueFacet):
    enqueue = bound(submit.enqueue)
    claim = bound(leases.claim)
    heartbeat = bound(leases.heartbeat)
    held = bound(leases.held)
    save = bound(leases.save)
    settle = bound(leases.settle)
    spawn = bound(spawn.spawn)


class PartitionedControl(BoundFacet[Hub], ControlFacet):
    select = bound(reader.select)
    cancel = bound(control.cancel)
    retry = bound(control.retry)
    edit = bound(control.edit)
    replay = bound(control.replay)
    discard = bound(control.discard)


class PartitionedReplays(BoundFacet[Hub], ReplaysFacet):
    start = at_home("replays", "start")
    list = at_home("replays", "list")
    advance = bound(control.advance)


class PartitionedReader(BoundFacet[Hub], ReaderFacet):
    get = bound(reader.get)
    locate = bound(reader.locate)
    find = bound(reader.find)
    count = bound(reader.count)
    attempts = bound(reader.attempts)
    dependencies = bound(reader.dependencies)
    dependents = bound(reader.dependents)
    situation = bound(reader.situation)
    dead_letters = bound(reader.dead_letters)


class PartitionedSettings(BoundFacet[Hub], SettingsFacet):
    pause = bound(records.pause)
    resume = bound(records.resume)
    limit = bound(records.limit)
    limit_types = bound(records.limit_types)
    app_limit = bound(records.app_limit)


class PartitionedUpkeep(BoundFacet[Hub], UpkeepFacet):
    recover = bound(records.recover)
    promote = bound(records.promote)
    expire = bound(records.expire)
    prune = bound(records.prune)
    tidy = bound(records.tidy)


class PartitionedCrons(BoundFacet[Hub], CronsFacet):
    declare = at_home("crons", "declare")
    fire = bound(arrivals.fire)
    pause = at_home("crons", "pause")
    resume = at_home("crons", "resume")
    forget = at_home("crons", "forget")
    list = at_home("crons", "list")


class PartitionedAccess(BoundFacet[Hub], AccessFacet):
    tokens = at_home("access", "tokens")
    add = at_home("access", "add")
    revoke = at_home("access", "revoke")
    sessions = at_home("access", "sessions")
    open_session = at_home("access", "open_session")
    close_session = at_home("access", "close_session")


class PartitionedAudit(BoundFacet[Hub], AuditFacet):
    record = at_home("audit", "record")
    prune = at_home("audit", "prune")
    list = at_home("audit", "list")


class PartitionedCluster(BoundFacet[Hub], ClusterFacet):
    announce = at_home("cluster", "announce")
    retire = at_home("cluster", "retire")
    workers = at_home("cluster", "workers")
    gone = at_home("cluster", "gone")
    lead = at_home("cluster", "lead")
    resign = at_home("cluster", "resign")


class PartitionedOverview(BoundFacet[Hub], OverviewFacet):
    queues = bound(overview.queues)
    types = bound(overview.types)
    ended = bound(overview.ended)
    flows = bound(statistics.flows)
    inspect = bound(overview.inspect)


class PartitionedEvents(BoundFacet[Hub], EventsFacet):
    send = bound(arrivals.send)
    prune = at_home("events", "prune")
    load = at_home("events", "load")
    list = at_home("events", "list")


class PartitionedTransfer(BoundFacet[Hub], TransferFacet):
    accept_jobs = bound(transfer.accept_jobs)
    dump = bound(transfer.dump)
    load = bound(transfer.load)


class PartitionedSeries(BoundFacet[Hub], SeriesFacet):
    totals = bound(statistics.lane_totals)
    record = at_home("series", "record")
    read = at_home("series", "read")


class PartitionedRefusals(BoundFacet[Hub], RefusalsFacet):
    record = bound(statistics.record_refusals)
    list = bound(statistics.list_refusals)
    total = bound(statistics.count_refusals)

"""An index: which plan runs which operation of the SQLite store.

In a class, an operation hides the module of its name from the lines below it.
"""

from __future__ import annotations

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
from fencepost.store.sqlite.flows import enqueue, spawn
from fencepost.store.sqlite.flows.listing import FLOWS
from fencepost.store.sqlite.jobs import (
    claim,
    control,
    edit,
    heartbeat,
    lease,
    search,
    settle,
    upkeep,
)
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.read import READER, SETTINGS
from fencepost.store.sqlite.limits import rates
from fencepost.store.sqlite.records import cluster, doctor, events, overview, transfer
from fencepost.store.sqlite.records.access import AUDIT, SESSIONS, TOKENS
from fencepost.store.sqlite.records.crons import CRONS
from fencepost.store.sqlite.records.refusals import REFUSALS
from fencepost.store.sqlite.records.replays import REPLAYS
from fencepost.store.sqlite.records.series import SERIES

bound: Binder[Env] = Binder()


def facets(env: Env, reading: Env, joins: JoinsFacet) -> Facets:
    """Return the operations; those that only read are given *reading*."""
    return Facets(
        queue=SqliteQueue(env, reading),
        control=SqliteControl(env, reading),
        replays=SqliteReplays(env, reading),
        reader=SqliteReader(env, reading),
        settings=SqliteSettings(env, reading),
        upkeep=SqliteUpkeep(env, reading),
        crons=SqliteCrons(env, reading),
        access=SqliteAccess(env, reading),
        audit=SqliteAudit(env, reading),
        cluster=SqliteCluster(env, reading),
        overview=SqliteOverview(env, reading),
        series=SqliteSeries(env, reading),
        refusals=SqliteRefusals(env, reading),
        events=SqliteEvents(env, reading),
        transfer=SqliteTransfer(env, reading),
        joins=joins,
    )


class SqliteQueue(BoundFacet[Env], QueueFacet):
    enqueue = bound(enqueue.enqueue)
    claim = bound(claim.claim)
    heartbeat = bound(heartbeat.heartbeat)
    held = bound(lease.held)
    save = bound(settle.save)
    settle = bound(settle.settle)
    spawn = bound(spawn.spawn)


class SqliteControl(BoundFacet[Env], ControlFacet):
    select = bound(READER.select)
    cancel = bound(control.cancel)
    retry = bound(control.retry)
    edit = bound(edit.edit)
    replay = bound(control.replay)
    discard = bound(control.discard)


class SqliteReplays(BoundFacet[Env], ReplaysFacet):
    start = bound(REPLAYS.start)
    list = bound(REPLAYS.replays)
    advance = bound(REPLAYS.advance)


class SqliteReader(BoundFacet[Env], ReaderFacet):
    get = bound(READER.get)
    locate = bound(READER.locate)
    find = bound(READER.find)
    count = bound(search.count)
    attempts = bound(READER.attempts)
    dependencies = bound(READER.dependencies)
    dependents = bound(READER.dependents)
    situation = bound(READER.situation)
    dead_letters = bound(READER.dead_letters)


class SqliteSettings(BoundFacet[Env], SettingsFacet):
    pause = bound(SETTINGS.pause)
    resume = bound(SETTINGS.resume)
    limit = bound(SETTINGS.limit)
    limit_types = bound(rates.limit_types)
    app_limit = bound(SETTINGS.app_limit)


class SqliteUpkeep(BoundFacet[Env], UpkeepFacet):
    recover = bound(upkeep.recover)
    promote = bound(upkeep.promote)
    expire = bound(upkeep.expire)
    prune = bound(upkeep.prune)
    tidy = bound(upkeep.tidy)


class SqliteCrons(BoundFacet[Env], CronsFacet):
    declare = bound(CRONS.declare)
    fire = bound(CRONS.fire)
    pause = bound(CRONS.pause)
    resume = bound(CRONS.resume)
    forget = bound(CRONS.forget)
    list = bound(CRONS.crons)


class SqliteAccess(BoundFacet[Env], AccessFacet):
    tokens = bound(TOKENS.tokens)
    add = bound(TOKENS.add)
    revoke = bound(TOKENS.revoke)
    sessions = bound(SESSIONS.sessions)
    open_session = bound(SESSIONS.open_session)
    close_session = bound(SESSIONS.close_session)


class SqliteAudit(BoundFacet[Env], AuditFacet):
    record = bound(AUDIT.record)
    prune = bound(AUDIT.prune)
    list = bound(AUDIT.actions)


class SqliteCluster(BoundFacet[Env], ClusterFacet):
    announce = bound(cluster.announce)
    retire = bound(cluster.CLUSTER.retire)
    workers = bound(cluster.CLUSTER.workers)
    gone = bound(cluster.CLUSTER.gone)
    lead = bound(cluster.CLUSTER.lead)
    resign = bound(cluster.CLUSTER.resign)


class SqliteOverview(BoundFacet[Env], OverviewFacet):
    queues = bound(overview.OVERVIEW.queues)
    types = bound(overview.OVERVIEW.types)
    ended = bound(overview.ended)
    flows = bound(FLOWS.flows)
    inspect = bound(doctor.examine)


class SqliteSeries(BoundFacet[Env], SeriesFacet):
    totals = bound(SERIES.totals)
    record = bound(SERIES.record)
    read = bound(SERIES.read)


class SqliteRefusals(BoundFacet[Env], RefusalsFacet):
    record = bound(REFUSALS.record)
    list = bound(REFUSALS.refusals)
    total = bound(REFUSALS.total)


class SqliteEvents(BoundFacet[Env], EventsFacet):
    send = bound(events.EVENTS.send)
    prune = bound(events.EVENTS.prune)
    load = bound(events.load)
    list = bound(events.EVENTS.events)


class SqliteTransfer(BoundFacet[Env], TransferFacet):
    accept_jobs = bound(transfer.accept_jobs)
    dump = bound(transfer.DUMP.dump)
    load = bound(transfer.load)

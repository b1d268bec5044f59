"""An index: which plan does which operation of the PostgreSQL store.

In a class body, a name such as ``claim`` is the module until the operation of that name is bound.
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
from fencepost.store.postgres.flows import spawn
from fencepost.store.postgres.flows.listing import FLOWS
from fencepost.store.postgres.jobs import (
    claim,
    control,
    edit,
    enqueue,
    heartbeat,
    lease,
    search,
    settle,
    upkeep,
)
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.read import READER, SETTINGS
from fencepost.store.postgres.joins import operations
from fencepost.store.postgres.limits import rates
from fencepost.store.postgres.records import (
    access,
    cluster,
    crons,
    doctor,
    events,
    overview,
    transfer,
)
from fencepost.store.postgres.records.refusals import REFUSALS
from fencepost.store.postgres.records.replays import REPLAYS
from fencepost.store.postgres.records.series import SERIES

bound: Binder[Env] = Binder()


def facets(env: Env) -> Facets:
    """Return the operations."""
    return Facets(
        queue=PostgresQueue(env),
        control=PostgresControl(env),
        replays=PostgresReplays(env),
        reader=PostgresReader(env),
        settings=PostgresSettings(env),
        upkeep=PostgresUpkeep(env),
        crons=PostgresCrons(env),
        access=PostgresAccess(env),
        audit=PostgresAudit(env),
        cluster=PostgresCluster(env),
        overview=PostgresOverview(env),
        series=PostgresSeries(env),
        refusals=PostgresRefusals(env),
        events=PostgresEvents(env),
        transfer=PostgresTransfer(env),
        joins=PostgresJoins(env),
    )


class PostgresQueue(BoundFacet[Env], QueueFacet):
    enqueue = bound(enqueue.enqueue)
    claim = bound(claim.claim)
    heartbeat = bound(heartbeat.heartbeat)
    held = bound(lease.held)
    save = bound(settle.save)
    settle = bound(settle.settle)
    spawn = bound(spawn.spawn)


class PostgresControl(BoundFacet[Env], ControlFacet):
    select = bound(READER.select)
    cancel = bound(control.cancel)
    retry = bound(control.retry)
    edit = bound(edit.edit)
    replay = bound(control.replay)
    discard = bound(control.discard)


class PostgresReplays(BoundFacet[Env], ReplaysFacet):
    start = bound(REPLAYS.start)
    list = bound(REPLAYS.replays)
    advance = bound(REPLAYS.advance)


class PostgresReader(BoundFacet[Env], ReaderFacet):
    get = bound(READER.get)
    locate = bound(READER.locate)
    find = bound(READER.find)
    count = bound(search.count)
    attempts = bound(READER.attempts)
    dependencies = bound(READER.dependencies)
    dependents = bound(READER.dependents)
    situation = bound(READER.situation)
    dead_letters = bound(READER.dead_letters)


class PostgresSettings(BoundFacet[Env], SettingsFacet):
    pause = bound(SETTINGS.pause)
    resume = bound(SETTINGS.resume)
    limit = bound(SETTINGS.limit)
    limit_types = bound(rates.limit_types)
    app_limit = bound(SETTINGS.app_limit)


class PostgresUpkeep(BoundFacet[Env], UpkeepFacet):
    recover = bound(upkeep.recover)
    promote = bound(upkeep.promote)
    expire = bound(upkeep.expire)
    prune = bound(upkeep.prune)
    tidy = bound(upkeep.tidy)


class PostgresCrons(BoundFacet[Env], CronsFacet):
    declare = bound(crons.CRONS.declare)
    fire = bound(crons.CRONS.fire)
    pause = bound(crons.CRONS.pause)
    resume = bound(crons.CRONS.resume)
    forget = bound(crons.CRONS.forget)
    list = bound(crons.CRONS.crons)


class PostgresAccess(BoundFacet[Env], AccessFacet):
    tokens = bound(access.TOKENS.tokens)
    add = bound(access.TOKENS.add)
    revoke = bound(access.TOKENS.revoke)
    sessions = bound(access.SESSIONS.sessions)
    open_session = bound(access.SESSIONS.open_session)
    close_session = bound(access.SESSIONS.close_session)


class PostgresAudit(BoundFacet[Env], AuditFacet):
    record = bound(access.AUDIT.record)
    prune = bound(access.AUDIT.prune)
    list = bound(access.AUDIT.actions)


class PostgresCluster(BoundFacet[Env], ClusterFacet):
    announce = bound(cluster.announce)
    retire = bound(cluster.CLUSTER.retire)
    workers = bound(cluster.CLUSTER.workers)
    gone = bound(cluster.CLUSTER.gone)
    lead = bound(cluster.CLUSTER.lead)
    resign = bound(cluster.CLUSTER.resign)


class PostgresOverview(BoundFacet[Env], OverviewFacet):
    queues = bound(overview.OVERVIEW.queues)
    types = bound(overview.OVERVIEW.types)
    ended = bound(overview.ended)
    flows = bound(FLOWS.flows)
    inspect = bound(doctor.inspect)


class PostgresSeries(BoundFacet[Env], SeriesFacet):
    totals = bound(SERIES.totals)
    record = bound(SERIES.record)
    read = bound(SERIES.read)


class PostgresRefusals(BoundFacet[Env], RefusalsFacet):
    record = bound(REFUSALS.record)
    list = bound(REFUSALS.refusals)
    total = bound(REFUSALS.total)


class PostgresEvents(BoundFacet[Env], EventsFacet):
    send = bound(events.send)
    prune = bound(events.EVENTS.prune)
    load = bound(events.load)
    list = bound(events.EVENTS.events)


class PostgresTransfer(BoundFacet[Env], TransferFacet):
    dump = bound(transfer.DUMP.dump)
    load = bound(transfer.load)
    accept_jobs = bound(transfer.accept_jobs)


class PostgresJoins(BoundFacet[Env], JoinsFacet):
    mark = bound(operations.mark)
    fates = bound(operations.fates)

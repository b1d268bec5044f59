"""An index: which plan runs which operation of the Redis store.

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
from fencepost.store.redis.flows import listing, spawn
from fencepost.store.redis.jobs import (
    claim,
    control,
    edit,
    enqueue,
    heartbeat,
    lease,
    read,
    search,
    settle,
    upkeep,
)
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.limits import rates
from fencepost.store.redis.records import (
    access,
    cluster,
    crons,
    doctor,
    events,
    overview,
    refusals,
    replays,
    series,
    sessions,
    settings,
    transfer,
)

bound: Binder[Env] = Binder()


def facets(env: Env, joins: JoinsFacet) -> Facets:
    """Return the operations."""
    return Facets(
        queue=RedisQueue(env),
        control=RedisControl(env),
        replays=RedisReplays(env),
        reader=RedisReader(env),
        settings=RedisSettings(env),
        upkeep=RedisUpkeep(env),
        crons=RedisCrons(env),
        access=RedisAccess(env),
        audit=RedisAudit(env),
        cluster=RedisCluster(env),
        overview=RedisOverview(env),
        series=RedisSeries(env),
        refusals=RedisRefusals(env),
        events=RedisEvents(env),
        transfer=RedisTransfer(env),
        joins=joins,
    )


class RedisQueue(BoundFacet[Env], QueueFacet):
    enqueue = bound(enqueue.enqueue)
    claim = bound(claim.claim)
    heartbeat = bound(heartbeat.heartbeat)
    held = bound(lease.held)
    save = bound(settle.save)
    settle = bound(settle.settle)
    spawn = bound(spawn.spawn)


class RedisControl(BoundFacet[Env], ControlFacet):
    select = bound(search.select)
    cancel = bound(control.cancel)
    retry = bound(control.retry)
    edit = bound(edit.edit)
    replay = bound(control.replay)
    discard = bound(control.discard)


class RedisReplays(BoundFacet[Env], ReplaysFacet):
    start = bound(replays.start)
    list = bound(replays.replays)
    advance = bound(replays.advance)


class RedisReader(BoundFacet[Env], ReaderFacet):
    get = bound(read.get)
    locate = bound(read.locate)
    find = bound(search.find)
    count = bound(search.count)
    attempts = bound(read.attempts)
    dependencies = bound(read.dependencies)
    dependents = bound(read.dependents)
    situation = bound(read.situation)
    dead_letters = bound(read.dead_letters)


class RedisSettings(BoundFacet[Env], SettingsFacet):
    pause = bound(settings.pause)
    resume = bound(settings.resume)
    limit = bound(settings.limit)
    limit_types = bound(rates.limit_types)
    app_limit = bound(settings.app_limit)


class RedisUpkeep(BoundFacet[Env], UpkeepFacet):
    recover = bound(upkeep.recover)
    promote = bound(upkeep.promote)
    expire = bound(upkeep.expire)
    prune = bound(upkeep.prune)
    tidy = bound(upkeep.tidy)


class RedisCrons(BoundFacet[Env], CronsFacet):
    declare = bound(crons.declare)
    fire = bound(crons.fire)
    pause = bound(crons.pause)
    resume = bound(crons.resume)
    forget = bound(crons.forget)
    list = bound(crons.crons)


class RedisAccess(BoundFacet[Env], AccessFacet):
    tokens = bound(access.tokens)
    add = bound(access.add)
    revoke = bound(access.revoke)
    open_session = bound(sessions.open_session)
    close_session = bound(sessions.close_session)
    sessions = bound(sessions.sessions)


class RedisAudit(BoundFacet[Env], AuditFacet):
    record = bound(access.record)
    prune = bound(access.prune)
    list = bound(access.actions)


class RedisCluster(BoundFacet[Env], ClusterFacet):
    announce = bound(cluster.announce)
    retire = bound(cluster.retire)
    workers = bound(cluster.workers)
    gone = bound(cluster.gone)
    lead = bound(cluster.lead)
    resign = bound(cluster.resign)


class RedisOverview(BoundFacet[Env], OverviewFacet):
    queues = bound(overview.queues)
    types = bound(overview.types)
    ended = bound(overview.ended)
    flows = bound(listing.flows)
    inspect = bound(doctor.examine)


class RedisSeries(BoundFacet[Env], SeriesFacet):
    totals = bound(series.totals)
    record = bound(series.record)
    read = bound(series.read_rows)


class RedisRefusals(BoundFacet[Env], RefusalsFacet):
    record = bound(refusals.record)
    list = bound(refusals.refusals_of)
    total = bound(refusals.total)


class RedisEvents(BoundFacet[Env], EventsFacet):
    send = bound(events.send)
    prune = bound(events.prune)
    load = bound(events.load)
    list = bound(events.events)


class RedisTransfer(BoundFacet[Env], TransferFacet):
    accept_jobs = bound(transfer.accept_jobs)
    dump = bound(transfer.dump)
    load = bound(transfer.load)

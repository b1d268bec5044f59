"""An index: which plan does which operation of the SQLite store."""

from __future__ import annotations

from fencepost.store.interface.access import AccessFacet
from fencepost.store.interface.audit import AuditFacet
from fencepost.store.interface.cluster import ClusterFacet
from fencepost.store.interface.control import ControlFacet
from fencepost.store.interface.crons import CronsFacet
from fencepost.store.interface.events import EventsFacet
from fencepost.store.interface.facet import Binder, BoundFacet
from fencepost.store.interface.joins import NoJoins
from fencepost.store.interface.overview import OverviewFacet
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.settings import SettingsFacet
from fencepost.store.interface.store import Facets
from fencepost.store.interface.transfer import TransferFacet
from fencepost.store.interface.upkeep import UpkeepFacet
from fencepost.store.sqlite.flows import enqueue as entries
from fencepost.store.sqlite.flows import read as graph
from fencepost.store.sqlite.flows import spawn as spawns
from fencepost.store.sqlite.jobs import claim as claims
from fencepost.store.sqlite.jobs import control as controls
from fencepost.store.sqlite.jobs import edit as edits
from fencepost.store.sqlite.jobs import read as views
from fencepost.store.sqlite.jobs import replay as replays
from fencepost.store.sqlite.jobs import settle as leases
from fencepost.store.sqlite.jobs import upkeep as chores
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.limits import rates as rates_by_type
from fencepost.store.sqlite.records import access as keys
from fencepost.store.sqlite.records import audit as log
from fencepost.store.sqlite.records import cluster as members
from fencepost.store.sqlite.records import crons as schedules
from fencepost.store.sqlite.records import doctor
from fencepost.store.sqlite.records import dump as dumps
from fencepost.store.sqlite.records import ended as ends
from fencepost.store.sqlite.records import events as records
from fencepost.store.sqlite.records import load as loads

bound: Binder[Env] = Binder()


def facets(env: Env, reading: Env, url: str) -> Facets:
    """Return the operations; those that only read are given *reading*."""
    return Facets(
        queue=SqliteQueue(env, reading),
        control=SqliteControl(env, reading),
        reader=SqliteReader(env, reading),
        settings=SqliteSettings(env, reading),
        upkeep=SqliteUpkeep(env, reading),
        crons=SqliteCrons(env, reading),
        access=SqliteAccess(env, reading),
        audit=SqliteAudit(env, reading),
        cluster=SqliteCluster(env, reading),
        overview=SqliteOverview(env, reading),
        events=SqliteEvents(env, reading),
        transfer=SqliteTransfer(env, reading),
        joins=NoJoins(url),
    )


class SqliteQueue(BoundFacet[Env], QueueFacet):
    enqueue = bound(entries.enqueue)
    claim = bound(claims.claim)
    heartbeat = bound(leases.heartbeat)
    settle = bound(leases.settle)
    save = bound(leases.save)
    spawn = bound(spawns.spawn)


class SqliteControl(BoundFacet[Env], ControlFacet):
    cancel = bound(controls.cancel)
    retry = bound(controls.retry)
    edit = bound(edits.edit)
    replay = bound(replays.replay)
    discard = bound(controls.discard)


class SqliteReader(BoundFacet[Env], ReaderFacet):
    get = bound(views.get)
    locate = bound(views.locate)
    find = bound(views.find)
    count = bound(views.count)
    attempts = bound(views.attempts)
    dependencies = bound(graph.dependencies)
    dependents = bound(graph.dependents)
    situation = bound(views.situation)
    dead_letters = bound(views.dead_letters)


class SqliteSettings(BoundFacet[Env], SettingsFacet):
    pause = bound(controls.pause)
    resume = bound(controls.resume)
    limit = bound(controls.limit)
    set_rates = bound(rates_by_type.set_rates)
    app_limit = bound(views.app_limit)


class SqliteUpkeep(BoundFacet[Env], UpkeepFacet):
    recover = bound(chores.recover)
    promote = bound(chores.promote)
    expire = bound(chores.expire)
    prune = bound(chores.prune)
    tidy = bound(chores.tidy)


class SqliteCrons(BoundFacet[Env], CronsFacet):
    declare = bound(schedules.declare)
    fire = bound(schedules.fire)
    pause = bound(schedules.pause)
    resume = bound(schedules.resume)
    forget = bound(schedules.forget)
    list = bound(schedules.crons)


class SqliteAccess(BoundFacet[Env], AccessFacet):
    tokens = bound(keys.tokens)
    add = bound(keys.add)
    revoke = bound(keys.revoke)


class SqliteAudit(BoundFacet[Env], AuditFacet):
    record = bound(log.record)
    prune = bound(log.prune)
    list = bound(log.actions)


class SqliteCluster(BoundFacet[Env], ClusterFacet):
    announce = bound(members.announce)
    retire = bound(members.retire)
    workers = bound(members.workers)
    lead = bound(members.lead)
    resign = bound(members.resign)


class SqliteOverview(BoundFacet[Env], OverviewFacet):
    queues = bound(views.queues)
    types = bound(views.types)
    ended = bound(ends.ended)
    inspect = bound(doctor.examine)


class SqliteEvents(BoundFacet[Env], EventsFacet):
    send = bound(records.send)
    prune = bound(records.prune)
    load = bound(records.load)
    list = bound(records.events)


class SqliteTransfer(BoundFacet[Env], TransferFacet):
    dump = bound(dumps.dump)
    load = bound(loads.load)
    accept_jobs = bound(loads.accept_jobs)

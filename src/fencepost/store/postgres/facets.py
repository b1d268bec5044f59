"""An index: which plan does which operation of the PostgreSQL store."""

from __future__ import annotations

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
from fencepost.store.postgres.flows import spawn as spawns
from fencepost.store.postgres.jobs import claim as claims
from fencepost.store.postgres.jobs import control as controls
from fencepost.store.postgres.jobs import edit as edits
from fencepost.store.postgres.jobs import enqueue as entries
from fencepost.store.postgres.jobs import read as views
from fencepost.store.postgres.jobs import settle as leases
from fencepost.store.postgres.jobs import upkeep as chores
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.joins import operations as marks
from fencepost.store.postgres.limits import rates as rates_by_type
from fencepost.store.postgres.records import access as keys
from fencepost.store.postgres.records import audit as log
from fencepost.store.postgres.records import cluster as members
from fencepost.store.postgres.records import crons as schedules
from fencepost.store.postgres.records import doctor
from fencepost.store.postgres.records import dump as dumps
from fencepost.store.postgres.records import ended as ends
from fencepost.store.postgres.records import events as records
from fencepost.store.postgres.records import load as loads

bound: Binder[Env] = Binder()


def facets(env: Env) -> Facets:
    """Return the operations."""
    return Facets(
        queue=PostgresQueue(env),
        control=PostgresControl(env),
        reader=PostgresReader(env),
        settings=PostgresSettings(env),
        upkeep=PostgresUpkeep(env),
        crons=PostgresCrons(env),
        access=PostgresAccess(env),
        audit=PostgresAudit(env),
        cluster=PostgresCluster(env),
        overview=PostgresOverview(env),
        events=PostgresEvents(env),
        transfer=PostgresTransfer(env),
        joins=PostgresJoins(env),
    )


class PostgresQueue(BoundFacet[Env], QueueFacet):
    enqueue = bound(entries.enqueue)
    claim = bound(claims.claim)
    heartbeat = bound(leases.heartbeat)
    settle = bound(leases.settle)
    save = bound(leases.save)
    spawn = bound(spawns.spawn)


class PostgresControl(BoundFacet[Env], ControlFacet):
    cancel = bound(controls.cancel)
    retry = bound(controls.retry)
    edit = bound(edits.edit)
    replay = bound(controls.replay)
    discard = bound(controls.discard)


class PostgresReader(BoundFacet[Env], ReaderFacet):
    get = bound(views.get)
    locate = bound(views.locate)
    find = bound(views.find)
    count = bound(views.count)
    attempts = bound(views.attempts)
    dependencies = bound(views.dependencies)
    dependents = bound(views.dependents)
    situation = bound(views.situation)
    dead_letters = bound(views.dead_letters)


class PostgresSettings(BoundFacet[Env], SettingsFacet):
    pause = bound(controls.pause)
    resume = bound(controls.resume)
    limit = bound(controls.limit)
    set_rates = bound(rates_by_type.set_rates)
    app_limit = bound(views.app_limit)


class PostgresUpkeep(BoundFacet[Env], UpkeepFacet):
    recover = bound(chores.recover)
    promote = bound(chores.promote)
    expire = bound(chores.expire)
    prune = bound(chores.prune)
    tidy = bound(chores.tidy)


class PostgresCrons(BoundFacet[Env], CronsFacet):
    declare = bound(schedules.declare)
    fire = bound(schedules.fire)
    pause = bound(schedules.pause)
    resume = bound(schedules.resume)
    forget = bound(schedules.forget)
    list = bound(schedules.crons)


class PostgresAccess(BoundFacet[Env], AccessFacet):
    tokens = bound(keys.tokens)
    add = bound(keys.add)
    revoke = bound(keys.revoke)


class PostgresAudit(BoundFacet[Env], AuditFacet):
    record = bound(log.record)
    prune = bound(log.prune)
    list = bound(log.actions)


class PostgresCluster(BoundFacet[Env], ClusterFacet):
    announce = bound(members.announce)
    retire = bound(members.retire)
    workers = bound(members.workers)
    lead = bound(members.lead)
    resign = bound(members.resign)


class PostgresOverview(BoundFacet[Env], OverviewFacet):
    queues = bound(views.queues)
    types = bound(views.types)
    ended = bound(ends.ended)
    inspect = bound(doctor.inspect)


class PostgresEvents(BoundFacet[Env], EventsFacet):
    send = bound(records.send)
    prune = bound(records.prune)
    load = bound(records.load)
    list = bound(records.events)


class PostgresTransfer(BoundFacet[Env], TransferFacet):
    dump = bound(dumps.dump)
    load = bound(loads.load)
    accept_jobs = bound(loads.accept_jobs)


class PostgresJoins(BoundFacet[Env], JoinsFacet):
    mark = bound(marks.mark)
    fates = bound(marks.fates)

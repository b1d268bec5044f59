"""The figures of PostgreSQL, by the name that ``--only`` takes, and what measures them."""

from __future__ import annotations

from bench import flows, footprint, keys, rates, slots
from bench.postgres import drain, limits, pickup, snapshot, submit
from bench.postgres.bench import PostgresBench
from bench.suite import Group

GROUPS: tuple[Group[PostgresBench], ...] = (
    Group(("submit", "submit-async", "submit-many"), submit.measure),
    Group(("drain", "drain-2", "backlog", "wal", "cpu"), drain.measure),
    Group(("slots",), slots.measure),
    Group(("snapshot",), snapshot.measure),
    Group(("pickup", "pickup-busy"), pickup.measure),
    Group(("chains", "fan", "diamonds", "chain"), flows.measure),
    Group(("limit",), limits.measure),
    Group(("rate",), rates.measure),
    Group(("keyed",), keys.measure),
    Group(("footprint",), footprint.measure),
)

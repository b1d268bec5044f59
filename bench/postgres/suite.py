"""The figures of PostgreSQL, by the name that ``--only`` takes, and what measures them."""

from __future__ import annotations

from bench import flowing, keyed, rating, slots
from bench.postgres import draining, limiting, pickup, snapshot, submitting
from bench.postgres.bench import PostgresBench
from bench.suite import Group

GROUPS: tuple[Group[PostgresBench], ...] = (
    Group(("submit", "submit-async", "submit-many"), submitting.measure),
    Group(("drain", "drain-2", "backlog", "wal", "cpu"), draining.measure),
    Group(("slots",), slots.measure),
    Group(("snapshot",), snapshot.measure),
    Group(("pickup", "pickup-busy"), pickup.measure),
    Group(("chains", "fan", "diamonds", "chain"), flowing.measure),
    Group(("limit",), limiting.measure),
    Group(("rate",), rating.measure),
    Group(("keyed",), keyed.measure),
)

"""The figures of PostgreSQL, by the name that ``--only`` takes, and what measures them."""

from __future__ import annotations

from fencepost.cli.benchmarks import flowing, keyed, rating, slots
from fencepost.cli.benchmarks.postgres import draining, limiting, pickup, snapshot, submitting
from fencepost.cli.benchmarks.postgres.bench import PostgresBench
from fencepost.cli.benchmarks.suite import Group

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

"""The figures of Redis, by the name that ``--only`` takes, and what measures them."""

from __future__ import annotations

from bench import flowing, keyed, rating, slots
from bench.redis import draining, memory, pickup, submitting
from bench.redis.bench import RedisBench
from bench.suite import Group

GROUPS: tuple[Group[RedisBench], ...] = (
    Group(("submit", "submit-async", "submit-many"), submitting.measure),
    Group(("drain", "drain-2", "backlog"), draining.measure),
    Group(("slots",), slots.measure),
    Group(("pickup", "pickup-busy"), pickup.measure),
    Group(("memory",), memory.measure),
    Group(("chains", "fan", "diamonds", "chain"), flowing.measure),
    Group(("rate",), rating.measure),
    Group(("keyed",), keyed.measure),
)

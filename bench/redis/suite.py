"""The figures of Redis, by the name that ``--only`` takes, and what measures them."""

from __future__ import annotations

from bench import flows, keys, rates, slots
from bench.redis import drain, memory, pickup, submit
from bench.redis.bench import RedisBench
from bench.suite import Group

GROUPS: tuple[Group[RedisBench], ...] = (
    Group(("submit", "submit-async", "submit-many"), submit.measure),
    Group(("drain", "drain-2", "backlog"), drain.measure),
    Group(("slots",), slots.measure),
    Group(("pickup", "pickup-busy"), pickup.measure),
    Group(("memory",), memory.measure),
    Group(("chains", "fan", "diamonds", "chain"), flows.measure),
    Group(("rate",), rates.measure),
    Group(("keyed",), keys.measure),
)

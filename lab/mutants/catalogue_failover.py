"""Mutants of how a Redis store bears a failover: what it waits for, leaves, and begins anew."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

ENGINE = "fencepost.store.redis.engine"
DURABILITY = "tests/store/redis/test_durability.py"
FAILOVER = "tests/store/redis/test_failover.py"
BAD_DAYS = "tests/store/redis/test_bad_days.py"
RIGHTS = "tests/store/redis/test_rights.py"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    # Only tests with servers of their own show them.
    patches = (Patch(f"{ENGINE}.{module}", old, new),)
    return Mutant(f"server-redis-{name}", about, Place.SERVER, patches, tests)


MUTANTS = (
    _mutant(
        "replicas-are-not-waited-for",
        "a write is acknowledged that only the master has",
        "connections",
        "        if not count or not is_relied_on or name in READS:\n",
        "        if count or not is_relied_on:\n",
        DURABILITY,
    ),
    _mutant(
        "repetition-does-not-wait",
        "a repeated write is acknowledged because the master alone knows that it was done",
        "connections",
        "pin.is_write and not pin.is_confirmed",
        "pin.is_confirmed",
        DURABILITY,
    ),
    _mutant(
        "too-few-replicas-are-enough",
        "a write that no replica confirmed in time is acknowledged",
        "connections",
        "            if count < self._address.waits_for:\n",
        "            if count < 0:\n",
        DURABILITY,
    ),
    _mutant(
        "two-histories-are-mixed",
        "an operation commits on one server what it has read on another",
        "connections",
        "        if self._era not in (0, server.era):\n",
        "        if self._era < 0:\n",
        FAILOVER,
    ),
    _mutant(
        "eviction-is-taken",
        "a server may delete jobs when its memory is full, and the store does not mind",
        "durability",
        'facts.eviction != "noeviction"',
        'facts.eviction == "noeviction"',
        DURABILITY,
    ),
    _mutant(
        "half-a-script-is-nothing",
        "a script that was stopped half-way is said to have done nothing",
        "errors",
        "    if writes and _STOPPED",
        "    if not writes and _STOPPED",
        BAD_DAYS,
    ),
    _mutant(
        "refused-script-is-called-unknown",
        "a script whose first write was refused is said to have perhaps been run",
        "errors",
        " and _UNDONE not in said:\n",
        ":\n",
        RIGHTS,
        BAD_DAYS,
    ),
    _mutant(
        "replica-is-taken-for-a-master",
        "a server is used that has become a replica",
        "master",
        '        if facts.role is not None and facts.role != "master":\n',
        "        if facts.role is None:\n",
        BAD_DAYS,
    ),
)

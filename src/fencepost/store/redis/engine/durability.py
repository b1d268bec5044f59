"""The names of durability, and whether a server gives what a name promises.

A server says most of it in INFO, which everybody may ask, and ``appendfsync`` in CONFIG, which a
hosted server often refuses. What it does not say is unknown: neither given nor lacking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

OLDEST = (6, 2)


class Durability(Enum):
    """What an acknowledged write survives."""

    REPLICA = "replica"
    """The loss of the server, if a replica takes over that has confirmed the write."""
    POWER = "power"
    """A power cut."""
    PROCESS = "process"
    """The end of the server's process, however it ends."""
    NONE = "none"
    """Nothing."""


DEFAULT = Durability.PROCESS

MEANINGS: Mapping[Durability, str] = {
    Durability.REPLICA: "what was acknowledged survives a killed server, and a failover to a "
    "replica that had confirmed it",
    Durability.POWER: "what was acknowledged survives a killed server and a power cut; a failover "
    "to a replica may take back the last moments",
    Durability.PROCESS: "what was acknowledged survives a killed server; a power cut or a failover "
    "may take back the last moments",
    Durability.NONE: "if the server ends, what was acknowledged may be lost",
}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself; None where it says nothing."""

    version: str | None = None
    """Of Redis; on Valkey, the version of Redis with which it is compatible."""
    valkey: str | None = None
    """The version of Valkey, if that is what it is."""
    history: str | None = None
    """Changes when the server starts, and when it becomes a master: its data may be older then."""
    role: str | None = None
    mode: str | None = None
    is_loading: bool = False
    keeps_log: bool | None = None
    """Whether there is an append-only file."""
    sync: str | None = None
    """When that is forced to the disk: appendfsync."""
    eviction: str | None = None
    replicas: int | None = None

    @property
    def is_too_old(self) -> bool:
        numbers = (self.version or "").split(".")[:2]
        return (
            len(numbers) == 2
            and all(part.isdigit() for part in numbers)
            and (tuple(map(int, numbers)) < OLDEST)
        )


def facts_of(info: bytes, sync: str | None = None) -> Facts:
    """Return what the answer to INFO says."""
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    said = {name: value.strip() for name, _, value in lines}
    log, replicas = said.get("aof_enabled"), said.get("connected_slaves", "")
    return Facts(
        version=said.get("redis_version"),
        valkey=said.get("valkey_version"),
        history=said.get("master_replid") or said.get("run_id"),
        role=said.get("role"),
        mode=said.get("redis_mode") or said.get("server_mode"),
        is_loading=said.get("loading", "0") != "0",
        keeps_log=None if log is None else log == "1",
        sync=sync,
        eviction=said.get("maxmemory_policy"),
        replicas=int(replicas) if replicas.isdigit() else None,
    )


def lacking(facts: Facts, wanted: Durability, replicas: int) -> Iterator[str]:
    """Yield what is to be changed before the server gives what is *wanted*."""
    if wanted is Durability.NONE:
        return
    if facts.keeps_log is False:
        yield "set `appendonly yes`, for without a file everything is lost when the server ends"
    if facts.eviction is not None and facts.eviction != "noeviction":
        yield (
            f"set `maxmemory-policy noeviction`, for {facts.eviction} deletes jobs when the "
            f"memory is full"
        )
    if wanted is Durability.POWER and facts.sync is not None and facts.sync != "always":
        yield f"set `appendfsync always`, for {facts.sync} may lose the last second in a power cut"
    if wanted is Durability.REPLICA and facts.replicas is not None and facts.replicas < replicas:
        yield f"attach replicas: {facts.replicas} of {replicas} are connected"


def unknown(facts: Facts, wanted: Durability) -> Iterator[str]:
    """Yield the settings on which the *wanted* durability rests, and which cannot be read."""
    if wanted is Durability.NONE:
        return
    if facts.keeps_log is None:
        yield "appendonly"
    if facts.eviction is None:
        yield "maxmemory-policy"
    if wanted is Durability.POWER and facts.sync is None:
        yield "appendfsync"
    if wanted is Durability.REPLICA and facts.replicas is None:
        yield "the number of replicas"

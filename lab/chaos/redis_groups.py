"""Redis servers that take over from each other: behind a Sentinel, or as a cluster."""

from __future__ import annotations

import os
import signal
import tempfile
from abc import abstractmethod
from contextlib import suppress

import redis.exceptions as theirs
from redis.crc import key_slot
from tests.servers.redis import RedisServer, eventually
from tests.servers.redis_groups import SERVICE, RedisCluster, SentinelGroup

from fencepost.store.redis.engine.address import PREFIX
from fencepost.store.redis.partitions.numbers import PARTITIONS, prefix_of
from lab.chaos.indexes import complaint
from lab.chaos.settings import Settings
from lab.chaos.stage import Stage

PATIENCE_MS = 3000
"""How long a master may be silent. On a busy machine one that lives is silent for a while, and a
takeover of which the run does not know would not be among the faults."""
WAIT = 60.0


class GroupStage(Stage):
    """Masters, each with a replica; nothing stands between them and their clients."""

    group: SentinelGroup | RedisCluster

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if self.disk.is_mounted:
            tempfile.tempdir = str(self.disk.folder)  # where servers put their data
        self.group = self._make()
        self.group.__enter__()
        version = self.servers[0].said("server")["redis_version"]
        self.source = f"Redis {version}, {settings.layout}, durability={settings.durability}"
        self.url = f"{self.group.url}?durability={settings.durability}"
        if settings.is_spread:
            self.url += "&partition=queue"

    @abstractmethod
    def _make(self) -> SentinelGroup | RedisCluster: ...

    @property
    @abstractmethod
    def servers(self) -> list[RedisServer]:
        """All that have data."""

    @abstractmethod
    def masters(self) -> list[RedisServer]:
        """Return those that have keys of the app; all servers must run."""

    @abstractmethod
    def ask_to_take_over(self, replica: RedisServer, master: RedisServer) -> None:
        """Have a replica become the master, though that lives."""

    @abstractmethod
    def has_taken_over(self, replica: RedisServer) -> bool:
        """Tell whether it is a master, and the others know."""

    @abstractmethod
    def rejoin(self, server: RedisServer) -> None:
        """Let one that was a master follow the one that is; return when it has everything."""

    @abstractmethod
    def settle(self) -> None:
        """Return when every replica follows its master, and could take over."""

    def replica_of(self, master: RedisServer) -> RedisServer:
        for each in self.servers:
            said = each.said("replication")
            if said["role"] == "slave" and said["master_port"] == master.port:
                return each
        raise AssertionError(f"nobody follows {master.port}")

    def await_successor(self, replica: RedisServer) -> None:
        eventually(lambda: self.has_taken_over(replica), WAIT)

    def go_on(self) -> None:
        """Let all go on that stand still."""
        for server in self.servers:
            with suppress(ProcessLookupError, AssertionError):
                os.kill(server.pid, signal.SIGCONT)

    def mend(self) -> None:
        self.go_on()
        for server in self.servers:
            if not server.is_running:
                server.start()
                self.rejoin(server)
        self.settle()

    def integrity(self) -> str:
        wrong = []
        for prefix in self._prefixes():
            with self._master_of(prefix).client(socket_timeout=60.0) as client:
                found = complaint(client, prefix)
            if found:
                wrong.append(f"{prefix} {found}")
        return "; ".join(wrong) or "ok"

    def _prefixes(self) -> list[str]:
        """Return under what the app may have jobs."""
        parts = range(PARTITIONS) if self.settings.is_spread else ()
        return [PREFIX, *(prefix_of(PREFIX, number) for number in parts)]

    @abstractmethod
    def _master_of(self, prefix: str) -> RedisServer: ...

    def close(self) -> None:
        self.go_on()
        self.group.__exit__(None, None, None)
        self.disk.close()


class SentinelStage(GroupStage):
    """A master and its replica; a Sentinel decides."""

    group: SentinelGroup

    def _make(self) -> SentinelGroup:
        return SentinelGroup(patience_ms=PATIENCE_MS)

    @property
    def servers(self) -> list[RedisServer]:
        return self.group.servers

    def masters(self) -> list[RedisServer]:
        return [self.group.master()]

    def ask_to_take_over(self, replica: RedisServer, master: RedisServer) -> None:
        def is_under_way() -> bool:
            with suppress(theirs.ResponseError):  # the last one is too short a while ago
                self.group.sentinel.do("SENTINEL", "FAILOVER", SERVICE)
                return True
            return self.has_taken_over(replica)

        eventually(is_under_way, WAIT)

    def has_taken_over(self, replica: RedisServer) -> bool:
        is_known = self.group.master() is replica
        return is_known and bool(replica.said("replication")["role"] == "master")

    def rejoin(self, server: RedisServer) -> None:
        server.follow(self.group.master())  # which the Sentinel would do ten seconds later

    def settle(self) -> None:
        self.group.ready()

    def _master_of(self, prefix: str) -> RedisServer:
        return self.group.master()


class ClusterStage(GroupStage):
    """Three masters, each with a replica."""

    group: RedisCluster

    def _make(self) -> RedisCluster:
        return RedisCluster(patience_ms=PATIENCE_MS)

    @property
    def servers(self) -> list[RedisServer]:
        return self.group.nodes

    def slots(self) -> list[int]:
        """Return those that have keys of the app."""
        return sorted(slot for slots in self._owned().values() for slot in slots)

    def masters(self) -> list[RedisServer]:
        return [*self._owned()]

    def _owned(self) -> dict[RedisServer, list[int]]:
        """Return the masters that have keys of the app, and in which slots."""
        slots = sorted({_slot_of(prefix) for prefix in self._prefixes()})
        found: dict[RedisServer, list[int]] = {}
        for node in self.servers:
            if node.said("replication")["role"] == "master":
                with node.client() as client:
                    counts = [
                        client.execute_command("CLUSTER COUNTKEYSINSLOT", slot) for slot in slots
                    ]
                own = [slot for slot, count in zip(slots, counts, strict=True) if count]
                found |= {node: own} if own else {}
        return found

    def ask_to_take_over(self, replica: RedisServer, master: RedisServer) -> None:
        replica.do("CLUSTER", "FAILOVER")

    def has_taken_over(self, replica: RedisServer) -> bool:
        if replica.said("replication")["role"] != "master":
            return False
        return b"cluster_state:ok" in replica.do("CLUSTER", "INFO")

    def rejoin(self, server: RedisServer) -> None:
        """Return when it has noticed: its file says what it was, the others what it is."""
        eventually(lambda: bool(server.said("replication")["role"] == "slave"), WAIT)
        self.settle()

    def settle(self) -> None:
        self.group.settle()

    def _master_of(self, prefix: str) -> RedisServer:
        return self.group.master_of(_slot_of(prefix))


def _slot_of(prefix: str) -> int:
    return int(key_slot(prefix.encode()))

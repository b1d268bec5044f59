"""Redis servers that belong together: a master with a replica and a Sentinel, or a cluster."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.servers.child import PORTS, free_port
from tests.servers.redis import USUAL, RedisServer, eventually

QUICK = {**USUAL, "repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
SERVICE = "mymaster"
SLOTS = 16_384
BUS = 10_000
"""How far the port of a node's bus is from its own."""


class Sentinel(RedisServer):
    """A Sentinel that watches one master, and decides alone."""

    def __init__(self, master: RedisServer, patience_ms: int) -> None:
        super().__init__({})
        self._master = master
        self._patience_ms = patience_ms

    def command(self, program: Path) -> list[str | Path]:
        config = self.folder / "sentinel.conf"
        if not config.exists():
            config.write_text(
                f"port {self.port}\n"
                "bind 127.0.0.1\n"
                f"dir {self.folder}\n"
                f"pidfile {self.folder / 'pid'}\n"
                f"sentinel monitor {SERVICE} 127.0.0.1 {self._master.port} 1\n"
                f"sentinel down-after-milliseconds {SERVICE} {self._patience_ms}\n"
                f"sentinel failover-timeout {SERVICE} {5 * self._patience_ms}\n"
            )
            self.own(config)
        return [program, config, "--sentinel"]

    def master_port(self) -> int:
        return int(self.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


class SentinelGroup:
    """A master, its replica, and a Sentinel that lets the one follow the other.

    A master that does not answer for *patience_ms* has died.
    """

    def __init__(self, *, patience_ms: int = 400) -> None:
        self.servers = [RedisServer(QUICK), RedisServer(QUICK)]
        self.sentinel = Sentinel(self.servers[0], patience_ms)
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{SERVICE}/0"

    def master(self) -> RedisServer:
        port = self.sentinel.master_port()
        return next(server for server in self.servers if server.port == port)

    def other(self) -> RedisServer:
        master = self.master()
        return next(server for server in self.servers if server is not master)

    def ready(self) -> None:
        """Return when the Sentinel knows that a replica can take over."""

        def is_known() -> bool:
            said = self.sentinel.do("SENTINEL", "REPLICAS", SERVICE)
            flags = [_pairs(each) for each in said]
            return any(
                each["flags"] == "slave" and each["master-link-status"] == "ok" for each in flags
            )

        eventually(is_known)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
            self.servers[1].follow(self.servers[0])
            stack.enter_context(self.sentinel)
            self.ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _pairs(answer: list[bytes]) -> dict[str, str]:
    words = [word.decode() for word in answer]
    return dict(zip(words[::2], words[1::2], strict=True))


class RedisCluster:
    """Three masters with a replica each. One that is silent for *patience_ms* has died."""

    MASTERS = 3

    def __init__(self, *, patience_ms: int = 1000) -> None:
        settings = {
            **QUICK,
            "cluster-enabled": "yes",
            "cluster-config-file": "nodes.conf",
            "cluster-node-timeout": str(patience_ms),
            "cluster-replica-validity-factor": "0",
        }
        self.nodes = [RedisServer(settings) for _ in range(2 * self.MASTERS)]
        for node in self.nodes:
            node.port = _bus_port()
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://{hosts}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self._join()
            self._stack = stack.pop_all()
        return self

    def _join(self) -> None:
        first, *others = self.nodes
        for place, node in enumerate(self.nodes):
            node.do("CLUSTER", "SET-CONFIG-EPOCH", str(place + 1))
        for node in others:
            first.do("CLUSTER", "MEET", "127.0.0.1", str(node.port))
        masters, replicas = self.nodes[: self.MASTERS], self.nodes[self.MASTERS :]
        step = SLOTS // self.MASTERS
        for place, node in enumerate(masters):
            start = place * step
            end = SLOTS if node is masters[-1] else start + step
            node.do("CLUSTER", "ADDSLOTS", *range(start, end))
        eventually(lambda: all(_knows(node) == len(self.nodes) for node in self.nodes))
        for master, replica in zip(masters, replicas, strict=True):
            replica.do("CLUSTER", "REPLICATE", self.id_of(master))
        self.settle()

    def settle(self) -> None:
        """Return when every slot is served, and every replica that runs follows its master."""
        eventually(lambda: all(_is_whole(node) for node in self.nodes if node.is_running), 30.0)

    def id_of(self, node: RedisServer) -> str:
        name: str = node.do("CLUSTER", "MYID").decode()
        return name

    def master_of(self, slot: int) -> RedisServer:
        """Return the node that says of itself that it serves a slot."""
        for node in self.nodes:
            if node.is_running and node.said("replication")["role"] == "master":
                for line in node.do("CLUSTER", "NODES").splitlines():
                    if b"myself" in line and _has(line.decode().split()[8:], slot):
                        return node
        raise AssertionError(f"nobody serves slot {slot}")

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _bus_port() -> int:
    """Return a free port for which that of the cluster's bus is free, too."""
    while True:
        port = free_port()
        with socket.socket() as probe:
            if port + BUS < PORTS.stop and probe.connect_ex(("127.0.0.1", port + BUS)) != 0:
                return port


def _has(ranges: list[str], slot: int) -> bool:
    for each in ranges:
        if each.startswith("["):  # on its way to or from another
            continue
        first, _, last = each.partition("-")
        if int(first) <= slot <= int(last or first):
            return True
    return False


def _knows(node: RedisServer) -> int:
    return sum(b" connected" in line for line in node.do("CLUSTER", "NODES").splitlines())


def _is_whole(node: RedisServer) -> bool:
    if b"cluster_state:ok" not in node.do("CLUSTER", "INFO"):
        return False
    said = node.said("replication")
    return bool(said["role"] == "master" or said["master_link_status"] == "up")

"""What happens to a Redis server; ``groups.py`` has what happens to several."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from lab.chaos.entries import Killed
from lab.chaos.faults.fault import ONE, Fault, Scene
from lab.chaos.redis_groups import GroupStage
from lab.chaos.redis_server import RedisStage

FLUSHES = 20
FULL = 1
"""Bytes of memory that a server may use which has far more in use."""
FEW_CLIENTS = 1
MANY_CLIENTS = 10_000
NOBODY = 1
"""A port on which nothing listens."""
ENDLESS = "while true do end"


def _server(scene: Scene) -> RedisStage:
    assert isinstance(scene.stage, RedisStage)
    return scene.stage


def stop_server(scene: Scene) -> None:
    """Let the server stand still, until leases have run out."""
    stage = _server(scene)
    stage.stop()
    try:
        scene.wait(0.5, scene.settings.ttl * 1.6)
    finally:
        stage.go_on()


def forgotten_scripts(scene: Scene) -> None:
    """Have the servers forget their scripts, again and again."""
    stage = scene.stage
    servers = stage.masters() if isinstance(stage, GroupStage) else [_server(scene).server]
    for _ in range(FLUSHES):
        for server in servers:
            server.do("SCRIPT", "FLUSH")
        scene.wait(0.01, 0.08)


def out_of_memory(scene: Scene) -> None:
    """Leave the server no memory for anything new, for a while."""
    with _server(scene).admin() as admin:
        admin.config_set("maxmemory", FULL)
        try:
            scene.wait(0.5, scene.settings.ttl * 1.6)
        finally:
            admin.config_set("maxmemory", 0)


def slow_script(scene: Scene) -> None:
    """Let a stranger's script run for ever; the server answers nobody, until it is killed."""
    stage = _server(scene)

    def run() -> None:
        with suppress(RedisError), stage.admin(60.0) as stranger:
            stranger.eval(ENDLESS, 0)

    stranger = threading.Thread(target=run, daemon=True)
    stranger.start()
    scene.wait(0.5, scene.settings.ttl * 1.6)
    while stranger.is_alive():
        with suppress(RedisError), stage.admin() as admin:
            admin.script_kill()
        stranger.join(0.05)


def read_only(scene: Scene) -> None:
    """Make the server a replica of nobody who is there, which refuses every write."""
    with _server(scene).admin() as admin:
        client: Any = admin
        client.replicaof("127.0.0.1", NOBODY)
        try:
            scene.wait(0.5, scene.settings.ttl * 1.6)
        finally:
            client.replicaof("NO", "ONE")


def ended_clients(scene: Scene) -> None:
    """End every connection, as an administrator does."""
    with _server(scene).admin() as admin:
        for kind in ("normal", "pubsub"):
            admin.client_kill_filter(_type=kind, skipme=True)


def clients_exhausted(scene: Scene) -> None:
    """Let nobody connect, and end the connections that there are."""
    with _server(scene).admin() as admin:
        admin.config_set("maxclients", FEW_CLIENTS)
        try:
            admin.client_kill_filter(_type="normal", skipme=True)
            scene.wait(0.5, scene.settings.ttl * 1.6)
        finally:
            admin.config_set("maxclients", MANY_CLIENTS)


def rewritten_log(scene: Scene) -> None:
    """Kill the server while it writes its append-only file again."""
    stage = _server(scene)
    with stage.admin() as admin:
        admin.bgrewriteaof()
    scene.wait(0.0, 0.1)
    scene.crew.note(Killed(scene.crew.now(), stage.server.pid, "server"))
    stage.server.crash()
    stage.revive()


REDIS = ("redis",)
REDIS_FAULTS = (
    Fault("stop_server", stop_server, REDIS, is_wide=True, layouts=ONE),
    Fault("forgotten_scripts", forgotten_scripts, REDIS),
    Fault("out_of_memory", out_of_memory, REDIS, is_wide=True, layouts=ONE),
    Fault("slow_script", slow_script, REDIS, is_wide=True, layouts=ONE),
    Fault("read_only", read_only, REDIS, is_wide=True, layouts=ONE),
    Fault("ended_clients", ended_clients, REDIS, is_wide=True, layouts=ONE),
    Fault("clients_exhausted", clients_exhausted, REDIS, is_wide=True, layouts=ONE),
    Fault("rewritten_log", rewritten_log, REDIS, is_wide=True, layouts=ONE),
)

"""What happens to Redis servers that take over from each other."""

from __future__ import annotations

from contextlib import suppress

from redis.exceptions import RedisError
from tests.servers.redis import RedisServer, eventually

from lab.chaos.entries import Killed
from lab.chaos.faults.fault import CLUSTERS, GROUPS, Fault, Scene
from lab.chaos.faults.servers import SERVER
from lab.chaos.redis_groups import ClusterStage, GroupStage

AHEAD = (0.1, 0.6)
"""Seconds for which a master works that no replica follows any more, before it is killed."""
SPLIT = (0.0, 3.0)
"""Seconds for which two servers believe to be the master."""
FROZEN = (0.5, 7.0)
"""Seconds for which a replica stands still: up to longer than anybody waits for it."""
CUTS = (5, 40)
CARRIED = (1, 6)
"""Keys of a slot that are moved at once."""


def _stage(scene: Scene) -> GroupStage:
    assert isinstance(scene.stage, GroupStage)
    return scene.stage


def _pair(scene: Scene) -> tuple[GroupStage, RedisServer, RedisServer]:
    """Return a master that has jobs, and the replica that has all that it has."""
    stage = _stage(scene)
    stage.settle()
    master = scene.rng.choice(stage.masters())
    return stage, master, stage.replica_of(master)


def _kill(scene: Scene, master: RedisServer) -> None:
    scene.crew.note(Killed(scene.crew.now(), master.pid, SERVER))
    master.crash()


def kill_master(scene: Scene) -> None:
    """Kill a master for good; its replica, which keeps up, takes over."""
    stage, master, replica = _pair(scene)
    _kill(scene, master)
    _succeed(stage, master, replica)


def kill_ahead(scene: Scene) -> None:
    """Kill a master that its replica has not followed for a moment; the replica takes over."""
    stage, master, replica = _pair(scene)
    replica.freeze()
    try:
        master.do("CLIENT", "KILL", "TYPE", "replica")
        scene.wait(*AHEAD)
        _kill(scene, master)
    finally:
        replica.thaw()
    _succeed(stage, master, replica)


def _succeed(stage: GroupStage, master: RedisServer, replica: RedisServer) -> None:
    """Wait until the replica is the master, and let the one that died follow it."""
    stage.await_successor(replica)
    master.start()
    stage.rejoin(master)


def demote_master(scene: Scene) -> None:
    """Let a replica take over from a master that lives, and that may go on as one for a while."""
    stage, master, replica = _pair(scene)
    stage.ask_to_take_over(replica, master)
    stage.await_successor(replica)
    scene.wait(*SPLIT)
    stage.rejoin(master)


def stop_replica(scene: Scene) -> None:
    """Let a replica stand still: what waits for it has no answer, or waits."""
    stage, _, replica = _pair(scene)
    replica.freeze()
    try:
        scene.wait(*FROZEN)
    finally:
        replica.thaw()
    stage.settle()


def cut_replication(scene: Scene) -> None:
    """Cut the way from a master to its replica, again and again."""
    stage, master, _ = _pair(scene)
    for _ in range(scene.rng.randint(*CUTS)):
        with suppress(RedisError):
            master.do("CLIENT", "KILL", "TYPE", "replica")
        scene.wait(0.0, 0.1)
    eventually(lambda: _follows(stage, master), 60.0)
    stage.settle()


def _follows(stage: GroupStage, master: RedisServer) -> bool:
    return bool(stage.replica_of(master).said("replication")["master_link_status"] == "up")


def move_slots(scene: Scene) -> None:
    """Move a slot of the app to another master, key by key, while everybody works."""
    stage = scene.stage
    assert isinstance(stage, ClusterStage)
    stage.settle()
    cluster, slot = stage.group, scene.rng.choice(stage.slots())
    source = cluster.master_of(slot)
    others = [each for each in stage.servers if each is not source]
    target = scene.rng.choice(
        [each for each in others if each.said("replication")["role"] == "master"]
    )
    setslot = ("CLUSTER", "SETSLOT", slot)
    target.do(*setslot, "IMPORTING", cluster.id_of(source))
    source.do(*setslot, "MIGRATING", cluster.id_of(target))
    while keys := source.do("CLUSTER", "GETKEYSINSLOT", slot, scene.rng.randint(*CARRIED)):
        source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 10_000, "KEYS", *keys)
        scene.wait(0.0, 0.05)
    for node in (target, source):
        node.do(*setslot, "NODE", cluster.id_of(target))
    stage.settle()


REDIS = ("redis",)
GROUP_FAULTS = (
    Fault("kill_master", kill_master, REDIS, is_wide=True, layouts=GROUPS),
    Fault("kill_ahead", kill_ahead, REDIS, is_wide=True, layouts=GROUPS, weight=2),
    Fault("demote_master", demote_master, REDIS, is_wide=True, layouts=GROUPS),
    Fault("stop_replica", stop_replica, REDIS, is_wide=True, layouts=GROUPS),
    Fault("cut_replication", cut_replication, REDIS, is_wide=True, layouts=GROUPS),
    Fault("move_slots", move_slots, REDIS, is_wide=True, layouts=CLUSTERS),
)

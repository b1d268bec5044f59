"""Redis Cluster, with all keys of an app in one slot (Redis only).

The tests of a process share one cluster: to start one takes seconds.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.servers.redis import RedisServer, eventually
from tests.servers.redis_groups import RedisCluster
from tests.store.redis.notebook import Notebook

from fencepost import StoreUnavailableError
from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.redis.engine.address import read_address
from fencepost.store.redis.store import RedisStore

JOB = NewJob(type="t")


class Slot:
    """The slot of one app, and how it is moved."""

    def __init__(self, cluster: RedisCluster, url: str) -> None:
        self.cluster = cluster
        self.number = read_address(url).slot

    def master(self) -> RedisServer:
        return self.cluster.master_of(self.number)

    def another(self) -> RedisServer:
        masters = (node for node in self.cluster.nodes if node.is_running)
        own = self.master()
        return next(
            node
            for node in masters
            if node is not own and node.said("replication")["role"] == "master"
        )

    def open(self, source: RedisServer, target: RedisServer) -> None:
        """Begin to move it: from now on the source redirects with ASK."""
        setslot = ("CLUSTER", "SETSLOT", self.number)
        target.do(*setslot, "IMPORTING", self.cluster.id_of(source))
        source.do(*setslot, "MIGRATING", self.cluster.id_of(target))

    def carry(self, source: RedisServer, target: RedisServer, count: int) -> int:
        """Move some keys, and return how many are left."""
        keys = source.do("CLUSTER", "GETKEYSINSLOT", self.number, count)
        if keys:
            words = ("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            source.do(*words)
        left: int = source.do("CLUSTER", "COUNTKEYSINSLOT", self.number)
        return left

    def shut(self, source: RedisServer, target: RedisServer) -> None:
        """End the move: the target has it."""
        for node in (target, source):
            node.do("CLUSTER", "SETSLOT", self.number, "NODE", self.cluster.id_of(target))


def url_of(cluster: RedisCluster, name: str) -> str:
    return f"{cluster.url}?prefix={{{name}}}:"


def test_any_node_leads_to_the_master_of_the_slot(cluster: RedisCluster) -> None:
    slot = Slot(cluster, url_of(cluster, "any"))
    for node in cluster.nodes:
        store = RedisStore(f"redis+cluster://127.0.0.1:{node.port}?prefix={{any}}:")
        store.run(store.queue.enqueue([JOB]))
        asyncio.run(store.run_async(store.queue.enqueue([JOB])))
        store.close()
    assert slot.master().do("HLEN", "{any}:job") == 2 * len(cluster.nodes)
    assert slot.master().do("CLUSTER", "COUNTKEYSINSLOT", slot.number) > 5


def test_a_node_named_as_a_server_is_refused(cluster: RedisCluster, redis_url: str) -> None:
    store = RedisStore(cluster.nodes[0].url)
    with pytest.raises(StoreUnavailableError, match=r"write redis\+cluster://"):
        store.run(store.queue.enqueue([JOB]))
    store.close()
    store = RedisStore(redis_url.replace("redis://", "redis+cluster://"), patience=0.1)
    with pytest.raises(StoreUnavailableError, match="cluster support disabled"):
        store.run(store.queue.enqueue([JOB]))
    store.close()


def test_while_the_slot_is_moved_scripts_wait_and_then_find_everything(
    cluster: RedisCluster,
) -> None:
    """A redirection by ASK is not followed: the target has only a part of the keys."""
    url = url_of(cluster, "moved")
    slot = Slot(cluster, url)
    store, hasty = RedisStore(url), RedisStore(url, patience=0.1)
    before = [reply.job_id for reply in store.run(store.queue.enqueue([JOB] * 5))]
    hasty.run(hasty.overview.queues())
    source, target = slot.master(), slot.another()
    slot.open(source, target)
    assert slot.carry(source, target, 3) > 0
    with pytest.raises(StoreUnavailableError, match="being moved to another server"):
        hasty.run(hasty.queue.enqueue([JOB]))
    with pytest.raises(StoreUnavailableError, match="being moved to another server"):
        asyncio.run(hasty.run_async(hasty.reader.get(before)))
    during: list[str] = []

    def submit() -> None:
        during.extend(reply.job_id for reply in store.run(store.queue.enqueue([JOB] * 5)))

    waiting = threading.Thread(target=submit)
    waiting.start()
    while slot.carry(source, target, 3):
        assert not during
    slot.shut(source, target)
    waiting.join(20)
    after = [reply.job_id for reply in store.run(store.queue.enqueue([JOB]))]
    everything = [*before, *during, *after]
    assert len(everything) == 11
    assert None not in store.run(store.reader.get(everything))
    assert slot.master() is target
    assert target.do("HLEN", "{moved}:job") == 11
    store.close()
    hasty.close()


def test_workers_run_on_while_the_slot_is_moved(cluster: RedisCluster) -> None:
    url = url_of(cluster, "running")
    slot = Slot(cluster, url)
    notebook = Notebook(url)
    with notebook.working():
        jobs = notebook.submit(range(10))
        source, target = slot.master(), slot.another()
        slot.open(source, target)
        while slot.carry(source, target, 2):
            pass
        slot.shut(source, target)
        jobs += notebook.submit(range(10, 20))
        for job in jobs:
            job.result(timeout=20)
    assert {*notebook.ran} == {*range(20)}


def test_a_worker_and_a_caller_outlast_a_dead_master(cluster: RedisCluster) -> None:
    url = url_of(cluster, "outlast")
    slot = Slot(cluster, url)
    notebook = Notebook(url)
    with notebook.working():
        notebook.note.submit(number=0).result(timeout=20)
        old = slot.master()
        with old.client() as client:  # so that the replica has the job that was done
            client.set("{outlast}:here", "now")
            assert client.wait(1, 10_000) == 1
        old.crash()
        for job in notebook.insist(range(1, 6)):
            job.result(timeout=20)
        assert slot.master() is not old
    assert {*notebook.ran} == {*range(6)}
    old.start()
    cluster.settle()


def test_a_cluster_that_is_down_is_unavailable_and_comes_back(cluster: RedisCluster) -> None:
    """A slot that nobody serves makes all of them unavailable, by default."""
    cluster.settle()
    url = url_of(cluster, "down")
    slot = Slot(cluster, url)
    store = RedisStore(url, patience=0.2)
    store.run(store.queue.enqueue([JOB]))
    other = slot.another()
    with_slots = other.do("CLUSTER", "SLOTS")
    own = cluster.id_of(other)
    lost = next(
        first
        for first, _, node, *_ in with_slots
        if node[2].decode() == own and first != slot.number
    )
    for node in cluster.nodes:
        node.do("CLUSTER", "DELSLOTS", lost)
    eventually(lambda: b"cluster_state:fail" in slot.master().do("CLUSTER", "INFO"))
    with pytest.raises(StoreUnavailableError, match=r"CLUSTERDOWN.*a part of the cluster is down"):
        store.run(store.queue.claim(ClaimRequest(worker="w", limit=1)))
    other.do("CLUSTER", "ADDSLOTS", lost)
    cluster.settle()
    assert len(store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs) == 1
    store.close()

"""Partitions on a cluster of three masters with a replica each (Redis only).

The tests of a process share one cluster: to start one takes seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from redis.crc import key_slot
from tests.servers.redis import RedisServer, eventually
from tests.servers.redis_groups import RedisCluster
from tests.store.redis.partitions.crew import PREFIX, QUEUES, Crew
from tests.worker.support import working_in_thread

from fencepost import State
from fencepost.core.job.job import NewJob
from fencepost.errors import StoreError
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.redis.partitions.numbers import partition_of, prefix_of
from fencepost.store.redis.partitions.store import PartitionedStore


@pytest.fixture
def url(cluster: RedisCluster) -> Iterator[str]:
    cluster.settle()
    yield f"{cluster.url}?prefix={PREFIX}&partition=queue"
    for node in cluster.nodes:
        if node.is_running and node.said("replication")["role"] == "master":
            node.do("FLUSHALL")


def slot_of(queue: str) -> int:
    return int(key_slot(prefix_of(PREFIX, partition_of(queue)).encode()))


def move(cluster: RedisCluster, slot: int, source: RedisServer, target: RedisServer) -> None:
    """Move a slot with all its keys, as an operator who reshards."""
    setslot = ("CLUSTER", "SETSLOT", slot)
    target.do(*setslot, "IMPORTING", cluster.id_of(source))
    source.do(*setslot, "MIGRATING", cluster.id_of(target))
    while keys := source.do("CLUSTER", "GETKEYSINSLOT", slot, 5):
        source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, source):
        node.do(*setslot, "NODE", cluster.id_of(target))


def test_each_queue_is_on_a_master_of_its_own(cluster: RedisCluster, url: str) -> None:
    store = PartitionedStore(url)
    jobs = [NewJob(type="t", queue=queue) for queue in QUEUES]
    replies = store.run(store.queue.enqueue(jobs, atomic=True))
    masters = [cluster.master_of(slot_of(queue)) for queue in QUEUES]
    assert len({id(master) for master in masters}) == len(QUEUES)
    for master, queue in zip(masters, QUEUES, strict=True):
        assert master.do("HLEN", f"{prefix_of(PREFIX, partition_of(queue))}job") == 1
    assert None not in store.run(store.reader.get([reply.job_id for reply in replies]))
    claim = store.run(store.queue.claim(ClaimRequest(worker="w", limit=5)))
    assert {job.queue for job in claim.jobs} == {*QUEUES}
    store.close()


def test_flows_run_over_masters(url: str) -> None:
    crew = Crew(url)
    with working_in_thread(crew.app):
        flows = [crew.submit(number) for number in range(10)]
        for number, flow in enumerate(flows):
            assert flow.results(timeout=30)["last"] == 2 * number + 3
    crew.app.close()


def test_flows_run_on_while_a_slot_is_moved(cluster: RedisCluster, url: str) -> None:
    crew = Crew(url)
    slot = slot_of(QUEUES[1])
    with working_in_thread(crew.app):
        flows = [crew.submit(number) for number in range(5)]
        source, target = cluster.master_of(slot), cluster.master_of(slot_of(QUEUES[2]))
        move(cluster, slot, source, target)
        flows += [crew.submit(number) for number in range(5, 10)]
        for number, flow in enumerate(flows):
            assert flow.results(timeout=30)["last"] == 2 * number + 3
    assert cluster.master_of(slot) is target
    move(cluster, slot, target, source)
    crew.app.close()


def test_other_queues_go_on_while_a_master_is_dead(cluster: RedisCluster, url: str) -> None:
    """And the flows that need it end when its replica has taken over."""
    crew = Crew(f"{url}&durability=replica")
    slot = slot_of(QUEUES[1])
    with working_in_thread(crew.app):
        assert crew.submit(0).results(timeout=30)["last"] == 3
        flow = crew.submit(1)
        old = cluster.master_of(slot)
        old.crash()
        # An outbox keeps what cannot be delivered; what is in other queues is not held up.
        alone = None
        while alone is None:
            try:
                alone = crew.first.using(key="k").submit(7)
            except StoreError:
                continue
        while alone_result(alone) is None:
            continue
        eventually(lambda: has_master(cluster, slot), 30.0)
        old.start()
        cluster.settle()
        assert cluster.master_of(slot) is not old
        assert flow.results(timeout=60)["last"] == 5
    crew.app.close()


def has_master(cluster: RedisCluster, slot: int) -> bool:
    try:
        return cluster.master_of(slot).is_running
    except AssertionError:
        return False


def alone_result(job: Any) -> int | None:
    """Return the result of a job; None if it could not be read yet."""
    try:
        return int(job.result(timeout=30))
    except StoreError:
        return None


def test_workers_that_are_killed_lose_nothing_and_release_nothing_twice(url: str) -> None:
    crew = Crew(url)
    flows = [crew.submit(number) for number in range(30)]
    for _ in range(6):
        worker = start_worker(url)
        try:
            worker.wait(1.5)
        except subprocess.TimeoutExpired:
            os.kill(worker.pid, signal.SIGKILL)
        worker.wait(10)
    with working_in_thread(crew.app, lease_ttl=2.0):
        for number, flow in enumerate(flows):
            assert flow.results(timeout=60)["last"] == 2 * number + 3
    assert crew.app.jobs.count(state=State.COMPLETED) == crew.app.jobs.count() == 4 * len(flows)
    crew.app.close()


def start_worker(url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.store.redis.partitions.crew", url]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)

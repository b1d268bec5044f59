"""The rights that the documentation names for each role are enough, and not more than that.

For the runtime role, the conformance suite is the proof: it is run by that user.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.exceptions as theirs
from tests.servers.redis import RedisServer
from tests.store.redis.rules import admit, rules
from tests.worker.support import working_in_thread

from fencepost import App, StoreUnavailableError
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.plan import Operation
from fencepost.store.redis.engine.shape import SHAPES
from fencepost.store.redis.store import RedisStore

ROLES = ("fencepost", "fencepost-reader", "fencepost-admin")


def test_each_role_is_documented() -> None:
    assert tuple(rules()) == ROLES


def test_a_worker_runs_with_the_rights_of_the_runtime(server: RedisServer) -> None:
    server.do("FLUSHALL")
    app = App(admit(server.url, "fencepost"))

    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    with working_in_thread(app):
        assert add.submit(a=1, b=2).result(timeout=20) == 3
    app.close()
    _check_shapes(server)


def _check_shapes(server: RedisServer) -> None:
    """See that strangers' keys are told by the types that ours have."""
    kinds = {name: server.do("TYPE", f"{{fencepost}}:{name}").decode() for name in SHAPES}
    there = {name: kind for name, kind in kinds.items() if kind != "none"}
    assert {"job", "ids", "seq", "ended", "counts", "lanes"} <= there.keys()
    assert there.items() <= SHAPES.items()


def test_a_reader_reads_and_writes_nothing(server: RedisServer) -> None:
    server.do("FLUSHALL")
    runtime = RedisStore(admit(server.url, "fencepost"))
    (reply,) = runtime.run(runtime.queue.enqueue([NewJob(type="t")]))
    runtime.close()
    before = server.do("DBSIZE"), server.do("GET", "{fencepost}:seq")
    store = RedisStore(admit(server.url, "fencepost-reader"))
    assert store.run(store.reader.get([reply.job_id]))[0] is not None
    assert len(store.run(store.reader.find(JobFilter(), PageRequest(limit=10))).jobs) == 1
    assert [queue.name for queue in store.run(store.overview.queues())] == ["default"]
    assert {each.code for each in store.run(store.overview.inspect())} >= {"durability", "clock"}
    writes: tuple[Operation[Any], ...] = (
        store.queue.enqueue([NewJob(type="t")]),
        store.queue.enqueue([NewJob(type="t", key=Key("k"))]),
        store.queue.claim(ClaimRequest(worker="w", limit=1)),
        store.control.cancel([reply.job_id]),
    )
    for write in writes:
        # Not an unknown outcome: the first write of each script is refused.
        with pytest.raises(StoreUnavailableError, match="this user lacks a right"):
            store.run(write)
        with pytest.raises(StoreUnavailableError, match="this user lacks a right"):
            asyncio.run(store.run_async(write))
    store.close()
    assert (server.do("DBSIZE"), server.do("GET", "{fencepost}:seq")) == before


def test_an_administrator_can_tell_whether_a_power_cut_is_survived(server: RedisServer) -> None:
    server.do("CONFIG", "SET", "appendfsync", "always")
    levels = {}
    for role in ("fencepost", "fencepost-admin"):
        store = RedisStore(f"{admit(server.url, role)}?durability=power")
        findings = store.run(store.overview.inspect())
        levels[role] = next(each.level for each in findings if each.code == "durability")
        store.close()
    server.do("CONFIG", "SET", "appendfsync", "no")
    assert levels == {"fencepost": "warn", "fencepost-admin": "ok"}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "words",
    [
        ("GET", "another"),
        ("SET", "another", "1"),
        ("PUBLISH", "another", "1"),
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("CONFIG", "SET", "appendonly", "no"),
        ("ACL", "WHOAMI"),
        ("SHUTDOWN",),
        ("SCRIPT", "FLUSH"),
        ("EVAL", "return redis.call('GET', 'another')", "0"),
    ],
)
def test_nobody_reaches_beyond_the_prefix(
    server: RedisServer, role: str, words: tuple[str, ...]
) -> None:
    admit(server.url, role)
    with pytest.raises(theirs.ResponseError, match=r"(?i)permission|can't"):
        server.do(*words, username=role, password="SECRET")

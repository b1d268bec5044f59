"""A master that Sentinels watch dies or is demoted: callers and workers find the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis.exceptions as theirs
from tests.servers.child import free_port
from tests.servers.redis import eventually, or_skip
from tests.servers.redis_groups import SERVICE, SentinelGroup
from tests.store.redis.notebook import Notebook

from fencepost import ConfigurationError, StoreUnavailableError
from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.open import open_store
from fencepost.store.redis.engine.address import Deployment, ServerPlace, read_address
from fencepost.store.redis.store import RedisStore


@pytest.fixture(scope="module")
def group() -> Iterator[SentinelGroup]:
    with or_skip(SentinelGroup) as made:
        yield made


def test_a_url_names_sentinels_the_master_and_the_database() -> None:
    address = read_address(
        "redis+sentinel://app:p%40ss@s1:26379,s2,[::1]:7/main/3?sentinel_password=x&prefix={a}:"
    )
    assert address.kind is Deployment.SENTINEL
    assert address.places == (
        ServerPlace("s1", 26379),
        ServerPlace("s2", 26379),
        ServerPlace("::1", 7),
    )
    assert (address.service, address.db, address.prefix) == ("main", 3, "{a}:")
    assert (address.username, address.password) == ("app", "p@ss")
    assert address.sentinel_login == {"password": "x"}
    assert "p%40ss" not in address.shown
    assert "=x" not in address.shown


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis+sentinel://h:26379", "the name of the master is missing"),
        ("redis+sentinel://h:x/main", "is not host:port"),
        ("redis+sentinel://h/main/one", "the database must be a number"),
        ("redis://h?sentinel_password=x", "unknown option"),
        ("redis+cluster://h/1", "database 0 only"),
        ("redis+cluster://h?prefix=shop:", "with braces, such as prefix={shop}:"),
    ],
)
def test_a_wrong_url_is_refused_with_what_to_write(url: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as found:
        open_store(url)
    assert text in str(found.value)


def test_what_no_sentinel_knows_is_unavailable(group: SentinelGroup) -> None:
    wrong = group.url.replace(SERVICE, "another")
    store = RedisStore(wrong, patience=0.1)
    with pytest.raises(StoreUnavailableError, match="knows no master called 'another'"):
        store.run(store.overview.queues())
    store.close()
    store = RedisStore(f"redis+sentinel://127.0.0.1:{free_port()}/{SERVICE}", patience=0.1)
    with pytest.raises(StoreUnavailableError, match=r"no Sentinel helped .*Connection refused"):
        asyncio.run(store.run_async(store.overview.queues()))
    store.close()


def test_a_dead_sentinel_is_passed_over(group: SentinelGroup) -> None:
    url = group.url.replace("//", f"//127.0.0.1:{free_port()},")
    store = RedisStore(url)
    assert store.run(store.overview.queues()) == []
    store.close()


def test_a_sentinel_named_as_a_server_is_refused(group: SentinelGroup) -> None:
    store = RedisStore(f"redis://127.0.0.1:{group.sentinel.port}")
    with pytest.raises(StoreUnavailableError, match=r"write redis\+sentinel://"):
        store.run(store.overview.queues())
    store.close()


def test_a_demoted_master_is_left_at_once(group: SentinelGroup) -> None:
    """The connections to it still work, and it answers READONLY."""
    group.ready()
    store = RedisStore(group.url)

    async def awaited() -> list[EnqueueReply]:
        await store.run_async(store.queue.enqueue([NewJob(type="t")]))
        old = group.master()

        def has_moved() -> bool:
            with suppress(theirs.ResponseError):  # one is under way, or the replica not ready
                if group.master() is old:
                    group.sentinel.do("SENTINEL", "FAILOVER", SERVICE)
            return group.master() is not old

        eventually(has_moved)
        old.follow(group.master())  # which the Sentinel does ten seconds later
        return await store.run_async(store.queue.enqueue([NewJob(type="t")]))

    store.run(store.queue.enqueue([NewJob(type="t")]))
    (first,) = asyncio.run(awaited())
    (second,) = store.run(store.queue.enqueue([NewJob(type="t")]))
    store.close()
    direct = RedisStore(group.master().url)
    assert None not in direct.run(direct.reader.get([first.job_id, second.job_id]))
    direct.close()


def test_a_worker_and_a_caller_outlast_a_dead_master(group: SentinelGroup) -> None:
    """Nobody crashes; what was confirmed by the replica is done, on the new master."""
    eventually(lambda: group.other().said("replication").get("master_link_status") == "up")
    group.ready()
    notebook = Notebook(f"{group.url}?prefix={{outlast}}:")
    with notebook.working():
        notebook.note.submit(number=0).result(timeout=20)
        old = group.master()
        old.crash()
        for job in notebook.insist(range(1, 6)):
            job.result(timeout=20)
        assert group.master() is not old
    assert {*notebook.ran} == {*range(6)}
    old.start()
    old.follow(group.master())

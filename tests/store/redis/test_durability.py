"""Durability by name: refused unless the server gives it, and waited for (Redis only)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.servers.redis import FORGETFUL, USUAL, RedisServer, eventually, or_skip

from fencepost import ConfigurationError, StoreUnavailableError, UnknownOutcomeError
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.open import open_store
from fencepost.store.redis.store import RedisStore


@pytest.fixture
def settings(server: RedisServer) -> Iterator[RedisServer]:
    """The same server; what a test sets is undone after it."""
    yield server
    for name, value in {**USUAL, "maxmemory-policy": "noeviction"}.items():
        server.do("CONFIG", "SET", name, value)
    # Until a file that was switched on is written, a crash loses what is not in it.
    eventually(lambda: not has_unwritten_log(server))


def has_unwritten_log(server: RedisServer) -> bool:
    said = server.said("persistence")
    return bool(said["aof_rewrite_in_progress"] or said["aof_rewrite_scheduled"])


def job(key: str | None = None) -> NewJob:
    return NewJob(type="t", key=None if key is None else Key(key))


def durability_of(url: str) -> tuple[str, str]:
    store = open_store(url)
    findings = store.run(store.overview.inspect())
    store.close()
    return next((each.level, each.text) for each in findings if each.code == "durability")


@pytest.mark.parametrize(
    ("wanted", "setting", "value", "advice"),
    [
        ("process", "appendonly", "no", "set `appendonly yes`"),
        ("power", "appendonly", "no", "set `appendonly yes`"),
        ("power", "appendfsync", "everysec", "set `appendfsync always`"),
        ("process", "maxmemory-policy", "allkeys-lru", "set `maxmemory-policy noeviction`"),
        ("replica", "appendonly", "yes", "attach replicas: 0 of 1 are connected"),
    ],
)
def test_a_stronger_name_than_the_server_gives_is_refused(
    settings: RedisServer, wanted: str, setting: str, value: str, advice: str
) -> None:
    settings.do("CONFIG", "SET", setting, value)
    store = open_store(f"{settings.url}?durability={wanted}")
    with pytest.raises(
        StoreUnavailableError, match=f"does not give durability={wanted}.*"
    ) as found:
        store.run(store.queue.enqueue([job()]))
    assert advice in str(found.value)
    with pytest.raises(StoreUnavailableError, match="durability="):
        asyncio.run(store.run_async(store.queue.enqueue([job()])))
    store.close()


def test_the_default_wants_a_file(settings: RedisServer) -> None:
    settings.do("CONFIG", "SET", "appendonly", "no")
    store = open_store(settings.url)
    with pytest.raises(StoreUnavailableError, match=r"durability=process.*`appendonly yes`"):
        store.run(store.overview.queues())
    settings.do("CONFIG", "SET", "appendonly", "yes")
    assert store.run(store.overview.queues()) == []  # the same store, once that is mended
    store.close()


def test_with_none_anything_goes_and_the_doctor_objects(settings: RedisServer) -> None:
    settings.do("CONFIG", "SET", "appendonly", "no")
    level, text = durability_of(f"{settings.url}?durability=none")
    assert level == "fail"
    assert "set `appendonly yes`" in text


def test_the_doctor_names_what_is_given(settings: RedisServer) -> None:
    assert durability_of(settings.url)[0] == "note"
    settings.do("CONFIG", "SET", "appendfsync", "always")
    level, text = durability_of(f"{settings.url}?durability=power")
    assert (level, "survives a killed server and a power cut" in text) == ("ok", True)


def test_the_doctor_sees_what_was_changed_since(settings: RedisServer) -> None:
    store = open_store(settings.url)
    store.run(store.overview.queues())
    settings.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    findings = {each.code: each for each in store.run(store.overview.inspect())}
    store.close()
    assert "not given: set `maxmemory-policy noeviction`" in findings["durability"].text
    assert findings["eviction"].level == "fail"


def test_what_cannot_be_read_is_said_to_be_unknown(settings: RedisServer) -> None:
    """A hosted server often forbids CONFIG: the name is believed, and the doctor says so."""
    settings.do("ACL", "SETUSER", "hosted", "on", ">pw", "~*", "&*", "+@all", "-config")
    url = f"redis://hosted:pw@127.0.0.1:{settings.port}/0"
    level, text = durability_of(f"{url}?durability=power")
    assert (level, "does not let this user read appendfsync" in text) == ("warn", True)
    settings.do("ACL", "SETUSER", "hosted", "-info")
    level, text = durability_of(url)
    assert (level, "read appendonly, maxmemory-policy" in text) == ("warn", True)
    settings.do("ACL", "DELUSER", "hosted")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("durability=disk", "there are: replica, power, process, none"),
        ("replicas=2", "durability=replica only"),
        ("durability=replica&replicas=0", "from 1 to 16"),
        ("durability=replica&replicas=one", "from 1 to 16"),
    ],
)
def test_a_wrong_name_is_refused_at_once(query: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        open_store(f"redis://localhost?{query}")


def test_what_was_acknowledged_survives_a_killed_server(server: RedisServer) -> None:
    """Under `process`, kill -9 right after the answer loses nothing."""
    eventually(lambda: not has_unwritten_log(server))
    store = RedisStore(server.url)
    replies = [store.run(store.queue.enqueue([job()]))[0] for _ in range(20)]
    server.crash()
    server.start()
    found = store.run(store.reader.get([reply.job_id for reply in replies]))
    assert all(each is not None for each in found)
    store.close()


class Pair:
    """A master and its replica."""

    def __init__(self, master: RedisServer, replica: RedisServer) -> None:
        self.master = master
        self.replica = replica

    @property
    def url(self) -> str:
        return f"{self.master.url}?durability=replica"


@pytest.fixture
def pair() -> Iterator[Pair]:
    master, replica = or_skip(RedisServer, USUAL), or_skip(RedisServer, FORGETFUL)
    with master, replica:
        # Without it a master waits for more replicas before it begins to copy.
        master.do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        replica.follow(master)
        yield Pair(master, replica)


def test_replicas_have_what_was_acknowledged(pair: Pair) -> None:
    store = RedisStore(pair.url)
    for number in range(50):
        store.run(store.queue.enqueue([job(str(number))]))
        assert pair.replica.do("HLEN", "{fencepost}:job") == number + 1
    store.close()


def test_an_unconfirmed_write_is_unknown_and_repeating_it_waits(pair: Pair) -> None:
    """A repeated submission only reads, and yet is not acknowledged before the replica has it."""
    store = RedisStore(pair.url, patience=0.4)
    store.run(store.overview.queues())
    pair.replica.freeze()
    for _ in range(2):  # the second finds the key taken
        with pytest.raises(
            UnknownOutcomeError, match=r"0 of 1 replicas confirmed it within 0\.2 s"
        ):
            store.run(store.queue.enqueue([job("once")]))
        with pytest.raises(UnknownOutcomeError, match="0 of 1 replicas"):
            asyncio.run(store.run_async(store.queue.enqueue([job("once")])))
    pair.replica.thaw()
    store.close()
    patient = RedisStore(pair.url)
    (reply,) = patient.run(patient.queue.enqueue([job("once")]))
    assert pair.replica.do("HLEN", "{fencepost}:job") == 1
    assert patient.run(patient.reader.get([reply.job_id]))[0] is not None
    patient.close()


def test_claims_and_heartbeats_do_not_wait(pair: Pair) -> None:
    """A lost claim only makes a job run again."""
    store = RedisStore(pair.url, patience=0.4)
    store.run(store.queue.enqueue([job()]))
    pair.replica.freeze()
    claim = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1)))
    assert len(claim.jobs) == 1
    pair.replica.thaw()
    store.close()


def test_a_lone_master_is_refused_until_a_replica_is_back(pair: Pair) -> None:
    pair.replica.crash()
    eventually(lambda: pair.master.said("replication")["connected_slaves"] == 0)
    store = RedisStore(pair.url)
    with pytest.raises(StoreUnavailableError, match="attach replicas: 0 of 1 are connected"):
        store.run(store.queue.enqueue([job("a")]))
    pair.replica.start()
    pair.replica.follow(pair.master)
    store.run(store.queue.enqueue([job("a")]))
    store.close()

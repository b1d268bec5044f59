"""What goes wrong with a server: an error that says what and what next, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import redis.exceptions as theirs
from tests.servers.child import free_port
from tests.servers.redis import USUAL, RedisServer, eventually, or_skip
from tests.worker.support import working_in_thread

from fencepost import App, StoreUnavailableError, UnknownOutcomeError
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Policy
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.redis.engine.errors import answered
from fencepost.store.redis.store import RedisStore

JOB = NewJob(type="t")
CLAIM = ClaimRequest(worker="w", limit=1)


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    """A store that has one job, on a server that has nothing else."""
    server.do("FLUSHALL")
    made = RedisStore(server.url, patience=3.0)
    made.run(made.queue.enqueue([JOB]))
    yield made
    made.close()


def refusal(store: RedisStore) -> str:
    """Return what a submission is told, the same in both colours; it is surely not done."""
    with pytest.raises(StoreUnavailableError) as found:
        store.run(store.queue.enqueue([JOB]))
    with pytest.raises(StoreUnavailableError):
        asyncio.run(store.run_async(store.queue.enqueue([JOB])))
    return str(found.value)


def count(server: RedisServer) -> int:
    jobs: int = server.do("HLEN", "{fencepost}:job")
    return jobs


# Who may come in.


@pytest.mark.parametrize(
    ("login", "text"),
    [
        ("user:wrong@", "the user or the password in the URL is wrong"),
        ("nobody:secret@", "the user or the password in the URL is wrong"),
        ("", "wants a password; write redis://user:password@host"),
    ],
)
def test_a_wrong_login_is_named(server: RedisServer, login: str, text: str) -> None:
    server.do("ACL", "SETUSER", "user", "on", ">secret", "~*", "&*", "+@all")
    server.do("ACL", "SETUSER", "default", "off")
    store = RedisStore(f"redis://{login}127.0.0.1:{server.port}")
    said = refusal(store)
    store.close()
    server.do("ACL", "SETUSER", "default", "on", username="user", password="secret")
    assert text in said
    assert "wrong@" not in said


def test_a_missing_right_is_named(server: RedisServer) -> None:
    words = ("on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval")
    server.do("ACL", "SETUSER", "lame", "reset", *words)
    store = RedisStore(f"redis://lame:secret@127.0.0.1:{server.port}")
    assert "this user lacks a right; see the ACL rules in docs/redis.md" in refusal(store)
    store.close()


def test_a_right_that_lacks_within_a_script_is_named(server: RedisServer) -> None:
    """What the script had written before stays, so the outcome is unknown."""
    server.do("FLUSHALL")
    words = ("on", ">secret", "~*", "&*", "+@all", "-zadd")
    server.do("ACL", "SETUSER", "lame", "reset", *words)
    store = RedisStore(f"redis://lame:secret@127.0.0.1:{server.port}")
    with pytest.raises(UnknownOutcomeError, match=r"this user lacks a right.*fencepost doctor"):
        store.run(store.queue.enqueue([JOB]))
    store.close()


@pytest.mark.parametrize(
    "said",
    [
        "The user executing the script can't run this command or subcommand script: user_script:4",
        "ACL failure in script: User lame has no permissions to run the 'zadd' command "
        "script: on @user_script:19.",
    ],
    ids=["redis 6", "redis 7 and valkey"],
)
def test_servers_of_every_version_are_understood(said: str) -> None:
    error = answered(theirs.ResponseError(said), where="here")
    assert isinstance(error, UnknownOutcomeError)
    assert "this user lacks a right" in str(error)
    nothing = answered(theirs.ResponseError(f"nothing was written: {said}"), where="here")
    assert isinstance(nothing, StoreUnavailableError)


def test_who_may_not_publish_submits_all_the_same(server: RedisServer) -> None:
    """A notification that fails comes after the commit: it must not say that nothing was done."""
    server.do("FLUSHALL")
    server.do("ACL", "SETUSER", "mute", "reset", "on", ">secret", "~*", "+@all", "-publish")
    store = RedisStore(f"redis://mute:secret@127.0.0.1:{server.port}")
    store.run(store.queue.enqueue([JOB]))
    asyncio.run(store.run_async(store.queue.enqueue([JOB])))
    assert count(server) == 2
    keyed = NewJob(type="t", key=Key("k"))
    store.run(store.queue.enqueue([keyed]))  # by a commit
    assert count(server) == 3
    store.close()


def test_connections_have_a_name(server: RedisServer, store: RedisStore) -> None:
    store.run(store.overview.queues())
    assert f"name=fencepost-{os.getpid()} ".encode() in server.do("CLIENT", "LIST")


def test_too_many_connections_are_named(server: RedisServer) -> None:
    server.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # what other tests left
    server.do("CONFIG", "SET", "maxclients", 4)
    store = RedisStore(server.url)
    with ExitStack() as held:
        for _ in range(4):
            eventually(lambda: _is_held(server, held))
        assert "raise maxclients" in refusal(store)
    eventually(lambda: _works(store))
    server.do("CONFIG", "SET", "maxclients", 10_000)
    store.close()


def _is_held(server: RedisServer, held: ExitStack) -> bool:
    """Take one of the connections that the server has; tell whether there was one."""
    taken = held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
    with suppress(OSError):
        taken.sendall(b"PING\r\n")
        return taken.recv(100).startswith(b"+PONG")
    return False


def _works(store: RedisStore) -> bool:
    with suppress(StoreUnavailableError):
        store.run(store.queue.enqueue([JOB]))
        return True
    return False


# What state the server is in.


def test_a_replica_is_refused_until_it_is_a_master(server: RedisServer) -> None:
    """Also a server that became a replica while connections to it are open."""
    server.do("FLUSHALL")
    store = RedisStore(server.url)
    store.run(store.queue.enqueue([JOB]))
    server.do("REPLICAOF", "127.0.0.1", str(free_port()))
    assert "this server is a replica; name the master" in refusal(store)
    reading = RedisStore(server.url)
    with pytest.raises(StoreUnavailableError, match="this server is a replica"):
        reading.run(reading.overview.queues())  # what it would read may be old
    reading.close()
    server.do("REPLICAOF", "NO", "ONE")
    store.run(store.queue.enqueue([JOB]))
    assert count(server) == 2
    store.close()


def test_a_server_that_is_loading_is_waited_for() -> None:
    settings = {"save": "", "appendonly": "no", "rdbcompression": "no"}
    with RedisServer(settings) as server:
        with server.client() as client:
            # It answers between two keys. To refuse an operation takes about six answers; the
            # others are for a machine that is busy.
            large = os.urandom(2_200_000)
            for number in range(30):
                client.set(f"large{number}", large)
            client.save()
        server.crash()
        server.settings["key-load-delay"] = "150000"
        server.start()
        store = RedisStore(f"{server.url}?durability=none")
        assert "LOADING" in refusal(store)
        eventually(lambda: _works(store))
        assert count(server) == 1
        store.close()


def test_a_server_that_is_busy_is_waited_for(server: RedisServer, store: RedisStore) -> None:
    server.do("CONFIG", "SET", "lua-time-limit", 50)

    def block() -> None:
        with suppress(theirs.ResponseError):
            server.do("EVAL", "while true do end", 0)

    blocking = threading.Thread(target=block)
    blocking.start()
    eventually(lambda: _is_busy(server))
    assert "BUSY" in (said := refusal(store))
    assert "a script of another application runs for too long" in said
    server.do("SCRIPT", "KILL")
    blocking.join(10)
    store.run(store.queue.enqueue([JOB]))
    assert count(server) == 2


def _is_busy(server: RedisServer) -> bool:
    try:
        server.do("PING")
    except theirs.ResponseError:
        return True
    return False


def test_a_full_memory_refuses_writes_and_loses_nothing(
    server: RedisServer, store: RedisStore
) -> None:
    claimed = store.run(store.queue.claim(CLAIM)).jobs
    server.do("CONFIG", "SET", "maxmemory", 1)
    said = refusal(store)
    assert "OOM" in said
    assert "raise maxmemory" in said
    assert store.run(store.reader.get([claimed[0].id]))[0] is not None
    server.do("CONFIG", "SET", "maxmemory", 0)
    store.run(store.queue.enqueue([JOB]))
    assert count(server) == 2


def test_forgotten_scripts_are_sent_again(server: RedisServer, store: RedisStore) -> None:
    server.do("SCRIPT", "FLUSH")
    assert len(store.run(store.queue.claim(CLAIM)).jobs) == 1
    server.do("SCRIPT", "FLUSH")
    asyncio.run(store.run_async(store.queue.enqueue([JOB])))
    assert count(server) == 2


@contextmanager
def relay(port: int, old: bytes, new: bytes) -> Iterator[int]:
    """Run a relay to a server, which replaces some bytes of its answers by as many others."""
    assert len(old) == len(new)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                there = socket.create_connection(("127.0.0.1", port))
                for source, target in ((client, there), (there, client)):
                    threading.Thread(target=carry, args=(source, target), daemon=True).start()

    def carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data.replace(old, new))
            target.shutdown(socket.SHUT_WR)

    threading.Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1]
    listening.close()


def test_a_server_before_6_2_is_refused(server: RedisServer) -> None:
    """A real one, whose answer to INFO is made to name an older version."""
    found = server.said("server")["redis_version"].encode()
    older = b"5.0." + b"1" * (len(found) - 4)
    with relay(server.port, b"redis_version:" + found, b"redis_version:" + older) as port:
        store = RedisStore(f"redis://127.0.0.1:{port}")
        said = refusal(store)
        store.close()
    assert f"Redis {older.decode()} is too old; install 6.2 or newer" in said


# What became of the keys.


def test_the_keys_of_another_application_are_refused(server: RedisServer) -> None:
    """Before anything is written."""
    server.do("FLUSHALL")
    server.do("SET", "{fencepost}:job", "a posting at the harbour")
    store = RedisStore(server.url)
    said = refusal(store)
    store.close()
    assert "key {fencepost}:job is a string, not a hash: another application uses this" in said
    assert server.do("DBSIZE") == 1


def test_a_key_of_a_wrong_type_is_named(server: RedisServer, store: RedisStore) -> None:
    """What a script had written before stays: the outcome is unknown, and a repetition safe."""
    server.do("DEL", "{fencepost}:policies")
    server.do("SET", "{fencepost}:policies", "not ours")
    lasting = NewJob(type="t", policy=Policy(max_attempts=9), key=Key("k"))
    before = server.do("HLEN", "{fencepost}:ids")
    with pytest.raises(UnknownOutcomeError, match=r"WRONGTYPE.*another application.*doctor"):
        store.run(store.queue.enqueue([lasting]))
    assert server.do("HLEN", "{fencepost}:ids") == before + 1, "there was a write before it"
    server.do("DEL", "{fencepost}:policies")
    (first,) = store.run(store.queue.enqueue([lasting]))
    (again,) = store.run(store.queue.enqueue([lasting]))
    assert first.job_id == again.job_id


def test_a_script_whose_first_write_is_refused_has_done_nothing(
    server: RedisServer, store: RedisStore
) -> None:
    """So it is not called unknown: a caller without a key may submit again."""
    tagged = NewJob(type="t", tags={"a": "b"}, key=Key("first"))
    server.do("SET", "{fencepost}:tag\na\nb", "not ours")
    before = server.do("DBSIZE"), server.do("HLEN", "{fencepost}:ids")
    with pytest.raises(StoreUnavailableError, match=r"nothing was written: WRONGTYPE"):
        store.run(store.queue.enqueue([tagged]))
    assert (server.do("DBSIZE"), server.do("HLEN", "{fencepost}:ids")) == before
    server.do("DEL", "{fencepost}:tag\na\nb")


@pytest.mark.parametrize("name", ["leases", "lease", "ids", "seq"])
def test_the_doctor_finds_a_key_that_is_gone(
    server: RedisServer, store: RedisStore, name: str
) -> None:
    store.run(store.queue.claim(CLAIM))
    findings = [each.code for each in store.run(store.overview.inspect()) if each.level == "fail"]
    assert findings == []
    server.do("DEL", f"{{fencepost}}:{name}")
    failed = {each.code: each.text for each in store.run(store.overview.inspect())}
    assert f"deleted or evicted, in whole or in part: {{fencepost}}:{name};" in failed["keys"]


def test_a_number_that_was_deleted_overwrites_nothing(
    server: RedisServer, store: RedisStore
) -> None:
    store.run(store.queue.enqueue([JOB, JOB]))
    server.do("DEL", "{fencepost}:seq")
    store.run(store.queue.enqueue([JOB]))
    assert count(server) == 4


# Patience.


def test_a_worker_outlasts_a_server_that_is_gone_for_a_while() -> None:
    with or_skip(RedisServer, USUAL) as server:
        app = App(server.url)
        ran: list[int] = []

        @app.task(name="note")
        def note(number: int) -> None:
            ran.append(number)

        with working_in_thread(app):
            note.submit(number=1).result(timeout=20)
            server.crash()
            with pytest.raises(StoreUnavailableError, match="is the server running"):
                note.submit(number=2)
            server.start()
            note.submit(number=3).result(timeout=20)
        assert ran == [1, 3]
        app.close()


HARMS = {
    "password": (
        ("ACL", "SETUSER", "patient", "resetpass", ">other"),
        ("ACL", "SETUSER", "patient", "resetpass", ">secret"),
    ),
    "right": (
        ("ACL", "SETUSER", "patient", "-evalsha", "-eval"),
        ("ACL", "SETUSER", "patient", "+evalsha", "+eval"),
    ),
    "replica": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
    "memory": (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
    "durability": (("CONFIG", "SET", "appendonly", "no"), ("CONFIG", "SET", "appendonly", "yes")),
}
"""What is done to a server, and what mends it."""


@pytest.mark.parametrize("harm", HARMS)
def test_a_worker_waits_until_its_server_is_mended(server: RedisServer, harm: str) -> None:
    """What has ended meanwhile is settled then, and what came due meanwhile runs."""
    server.do("FLUSHALL")
    server.do("ACL", "SETUSER", "patient", "on", ">secret", "~*", "&*", "+@all")
    app = App(f"redis://patient:secret@127.0.0.1:{server.port}/0")
    has_begun, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    @app.task(name="hold")
    def hold() -> None:
        has_begun.set()
        assert may_end.wait(20)
        ran.append("hold")

    @app.task(name="late")
    def late() -> None:
        ran.append("late")

    def has_failed() -> bool:
        failed = app.session.counters.snapshot()
        return any(
            f"store.operation.failed{{code=store_unavailable,operation={each}}}" in failed
            for each in ("claim", "settle")  # a full server lets jobs end, and none begin
        )

    worst, mend = HARMS[harm]
    with app, working_in_thread(app):
        held, delayed = hold.submit(), late.using(delay=1.0).submit()
        assert has_begun.wait(20)
        server.do(*worst)
        server.do("CLIENT", "KILL", "USER", "patient")
        may_end.set()
        eventually(has_failed)
        server.do(*mend)
        held.result(timeout=20)
        delayed.result(timeout=20)
    assert sorted(ran) == ["hold", "late"]

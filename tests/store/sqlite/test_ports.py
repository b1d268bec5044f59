"""Notification by ports. SQLite-specific: it is what a system without Unix sockets has instead."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.core.job.job import NewJob
from fencepost.platform.system import FORCED, current
from fencepost.store.interface.store import Topic
from fencepost.store.sqlite.engine import notification
from fencepost.store.sqlite.engine.notification import Notifier
from fencepost.store.sqlite.engine.ports import PortListener, PortSender
from fencepost.store.sqlite.store import SqliteStore

PLANTED = "ready-1-{}.{}.port"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """A store on a system without Unix sockets."""
    monkeypatch.setenv(FORCED, "windows")
    current.cache_clear()
    made = SqliteStore(str(tmp_path / "jobs.db"))
    yield made
    made.close()
    monkeypatch.undo()
    current.cache_clear()


def listening(store: SqliteStore, topic: Topic = Topic.READY) -> PortListener:
    found = store.listen(topic)
    assert isinstance(found, PortListener)
    return found


def submit(store: SqliteStore) -> None:
    store.run(store.queue.enqueue([NewJob(type="t")]))


def folder_of(store: SqliteStore) -> Path:
    return Path(store._notifier.folder)


def test_a_submission_wakes_a_listener_of_its_topic_once(store: SqliteStore) -> None:
    ready, settled = listening(store), listening(store, Topic.SETTLED)
    submit(store)
    assert ready.wait(10)
    assert not ready.wait(0)
    assert not settled.wait(0)
    ready.close()
    settled.close()
    assert os.listdir(folder_of(store)) == []


async def test_an_awaited_listener_is_woken(store: SqliteStore) -> None:
    ready = listening(store)
    assert not await ready.wait_async(0.001)
    submit(store)
    assert await ready.wait_async(10)
    assert not await ready.wait_async(0.001)
    ready.close()


async def test_a_stranger_on_the_machine_wakes_nobody(store: SqliteStore) -> None:
    """Each wake-up costs a query; any user of the machine can send to a port."""
    ready = listening(store)
    port = ready._socket.getsockname()[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for datagram in (b"!", b"", b"0" * 32, b"x" * 1_000):
            stranger.sendto(datagram, ("127.0.0.1", port))
    assert not ready.wait(0.01)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"!", ("127.0.0.1", port))
        assert not await ready.wait_async(0.01)
    submit(store)
    assert ready.wait(10), "and what is ours still does"
    ready.close()


def test_it_listens_within_this_machine_only(store: SqliteStore) -> None:
    ready = listening(store)
    assert ready._socket.getsockname()[0] == "127.0.0.1"
    ready.close()


def test_the_file_of_a_killed_listener_is_deleted_and_that_of_a_live_one_is_not(
    store: SqliteStore,
) -> None:
    live, dead = listening(store), listening(store)
    os.close(dead._fd)  # as a kill -9 does: the file stays, its lock does not
    dead._socket.close()
    submit(store)
    (left,) = os.listdir(folder_of(store))
    assert left == os.path.basename(live._path)
    assert live.wait(10)
    live.close()


def test_a_name_that_nobody_can_have_given_is_left_alone(store: SqliteStore) -> None:
    secret = "0" * 32
    names = [PLANTED.format(secret, port) for port in (0, 65_536, 99_999)]
    names += [PLANTED.format("short", 5), "ready-note.txt"]
    sender = PortSender(str(folder_of(store)))
    for name in names:
        sender.send(name)
    assert sender._socket is not None, "99,999 looks like a port, and is none"
    sender.close()


def test_a_store_with_sockets_wakes_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders know both kinds: what one process may do, another may be refused."""
    able, refused = (Notifier(str(tmp_path / "sockets.d")) for _ in range(2))
    monkeypatch.setattr(notification, "SocketListener", refuse)
    ready = refused.listen(Topic.READY, "0" * 32)
    assert isinstance(ready, PortListener)
    able.notify([Topic.READY])
    assert ready.wait(10)
    ready.close()
    able.close()
    refused.close()


def refuse(*_: object) -> None:
    raise OSError("the system allows no such socket")

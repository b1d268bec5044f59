"""Wake-up across processes. SQLite-specific: other engines have their own way to notify."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.core.job.job import NewJob
from fencepost.platform.system import current
from fencepost.store.interface.store import Topic
from fencepost.store.sqlite.engine.listeners import DatagramListener, PollingListener
from fencepost.store.sqlite.engine.notification import Notifier, SocketListener
from fencepost.store.sqlite.store import SqliteStore

SUBMIT = """
import sys
from fencepost.core.job.job import NewJob
from fencepost.store.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1])
store.run(store.queue.enqueue([NewJob(type="t")]))
"""


def test_a_submission_in_another_process_wakes_a_listener(store: SqliteStore, path: str) -> None:
    """S2-31: idle latency is bounded by a wake-up, not by the poll."""
    listener = store.listen(Topic.READY)
    assert not listener.wait(0)
    subprocess.run([sys.executable, "-c", SUBMIT, path], check=True, timeout=60)
    assert listener.wait(0)
    assert not listener.wait(0)
    listener.close()


def test_listeners_hear_only_their_topic(store: SqliteStore) -> None:
    ready, settled = store.listen(Topic.READY), store.listen(Topic.SETTLED)
    (reply,) = store.run(store.queue.enqueue([NewJob(type="t")]))
    assert (ready.wait(0), settled.wait(0)) == (True, False)
    store.run(store.control.cancel([reply.job_id]))
    assert (ready.wait(0), settled.wait(0)) == (False, True)
    ready.close()
    settled.close()


def test_a_socket_left_by_a_killed_process_is_removed(store: SqliteStore, path: str) -> None:
    if not current().has_unix_sockets:
        pytest.skip("no file is a socket here")
    listener = store.listen(Topic.READY)
    assert isinstance(listener, SocketListener)
    leftover = listener._path
    listener._socket.close()  # as a kill -9 does: the name stays
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert not os.path.exists(leftover)
    again = store.listen(Topic.READY)
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert again.wait(0)
    again.close()


def test_a_database_that_lies_too_deep_for_a_socket_is_heard_all_the_same(tmp_path: Path) -> None:
    """The kernel allows 108 bytes for the path of a socket."""
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    store, other = (SqliteStore(str(deep / "jobs.db")) for _ in range(2))
    listener = store.listen(Topic.READY)
    assert isinstance(listener, DatagramListener)
    other.run(other.queue.enqueue([NewJob(type="t")]))
    assert listener.wait(5)
    listener.close()
    other.close()
    store.close()


def test_a_store_without_sockets_is_polled(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wake-up is a courtesy: a system that refuses a socket costs latency, nothing else."""

    def refuse(*_: object) -> None:
        raise OSError("no socket")

    monkeypatch.setattr(socket, "socket", refuse)
    listener = store.listen(Topic.READY)
    assert isinstance(listener, PollingListener)
    monkeypatch.undo()
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert not listener.wait(0)
    assert not asyncio.run(listener.wait_async(0))
    listener.close()


def test_ringing_never_raises(tmp_path: Path) -> None:
    """A lost wake-up costs a slow poll; a failed one must not cost a committed job its answer."""
    notifier = Notifier(str(tmp_path / "sockets.d"))
    os.rmdir(notifier.folder)
    notifier.notify([Topic.READY])
    notifier.close()


@pytest.mark.parametrize("count", [1, 500])
def test_a_listener_that_nobody_reads_does_not_hold_up_the_bell(
    store: SqliteStore, count: int
) -> None:
    listener = store.listen(Topic.READY)
    for _ in range(count):
        store._notifier.notify([Topic.READY])
    assert listener.wait(0)
    listener.close()

"""Producers killed with SIGKILL in mid-stream: what they were told is stored, is stored."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from fencepost.store.sqlite.store import SqliteStore

PRODUCE = """
import asyncio, os, sys
from fencepost.core.job.job import NewJob
from fencepost.store.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1])

async def produce():
    while True:
        (reply,) = await store.run_async(store.queue.enqueue([NewJob(type="t")]))
        os.write(1, reply.job_id.encode() + b"\\n")

async def main():
    await asyncio.gather(*(produce() for _ in range(20)))

asyncio.run(main())
"""


@pytest.mark.parametrize("stop_after", [1, 50, 400])
def test_kill_9_of_a_producer_loses_nothing_acknowledged(path: str, stop_after: int) -> None:
    """S0-3, S0-4, S0-54."""
    producer = subprocess.Popen([sys.executable, "-c", PRODUCE, path], stdout=subprocess.PIPE)
    assert producer.stdout is not None
    lines = [producer.stdout.readline() for _ in range(stop_after)]
    os.kill(producer.pid, signal.SIGKILL)
    lines += producer.stdout.readlines()
    producer.wait()
    producer.stdout.close()
    # The last line may have been cut by the kill itself.
    acknowledged = [line.decode().strip() for line in lines if len(line) == 37]
    assert len(acknowledged) >= stop_after

    store = SqliteStore(path)
    assert None not in store.run(store.reader.get(acknowledged))
    store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()

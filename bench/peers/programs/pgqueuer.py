"""PgQueuer, over a pool of asyncpg."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
from pgqueuer.core.qm import QueueManager
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.programs import protocol
from bench.peers.programs.protocol import TRACE, URL

BATCH = 500
CHUNK = 5_000


class Sender(protocol.Sender):
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def one(self, task: str, number: int) -> object:
        return await self._queries.enqueue(task, b"%d" % number)

    async def bulk(self, count: int) -> None:
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            names = ["noop"] * len(numbers)
            payloads = [b"%d" % number for number in numbers]
            await self._queries.enqueue(names, payloads, [0] * len(numbers))


async def prepare() -> None:
    connection = await asyncpg.connect(URL)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


async def submit() -> None:
    async with asyncpg.create_pool(URL, min_size=2, max_size=10) as pool:
        await protocol.take_orders(Sender(Queries.from_asyncpg_pool(pool)))


async def work() -> None:
    async with asyncpg.create_pool(URL, min_size=2, max_size=10) as pool:
        manager = QueueManager(Queries.from_asyncpg_pool(pool))

        @manager.entrypoint("noop")
        async def noop(job: Job) -> None:
            TRACE.ran()

        @manager.entrypoint("mark")
        async def mark(job: Job) -> None:
            protocol.mark(int(job.payload or b""))

        @manager.entrypoint("nap")
        async def nap(job: Job) -> None:
            await protocol.nap_async(int(job.payload or b""))

        protocol.wait_for_go()
        await manager.run(batch_size=BATCH, heartbeat_timeout=timedelta(seconds=30))


if __name__ == "__main__":
    protocol.main(
        prepare=lambda: asyncio.run(prepare()), submit=submit, work=lambda: asyncio.run(work())
    )

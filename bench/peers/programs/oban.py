"""Oban for Python: one queue, embedded."""

from __future__ import annotations

import asyncio
from typing import Any

from oban import Oban, worker
from oban.schema import install

from bench.peers.programs import protocol
from bench.peers.programs.protocol import TRACE, URL

LIMIT = 100
CHUNK = 5_000


@worker(queue="default")
class Noop:
    async def process(self, job: Any) -> None:
        TRACE.ran()


@worker(queue="default")
class Mark:
    async def process(self, job: Any) -> None:
        protocol.mark(job.args["number"])


@worker(queue="default")
class Nap:
    async def process(self, job: Any) -> None:
        await protocol.nap_async(job.args["number"])


WORKERS: dict[str, Any] = {"noop": Noop, "mark": Mark, "nap": Nap}


class Sender(protocol.Sender):
    def __init__(self, oban: Oban) -> None:
        self._oban = oban

    async def one(self, task: str, number: int) -> object:
        return await self._oban.enqueue(WORKERS[task].new({"number": number}))

    async def bulk(self, count: int) -> None:
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            await self._oban.enqueue_many(WORKERS["noop"].new({"number": each}) for each in numbers)


async def prepare() -> None:
    pool = await Oban.create_pool(URL)
    await install(pool)
    await pool.close()


async def submit() -> None:
    pool = await Oban.create_pool(URL)
    async with Oban(pool=pool) as oban:
        await protocol.take_orders(Sender(oban))
    await pool.close()


async def work() -> None:
    pool = await Oban.create_pool(URL)
    protocol.wait_for_go()
    async with Oban(pool=pool, queues={"default": LIMIT}):
        await asyncio.Event().wait()


if __name__ == "__main__":
    protocol.main(
        prepare=lambda: asyncio.run(prepare()), submit=submit, work=lambda: asyncio.run(work())
    )

"""Fencepost, on PostgreSQL and Redis."""

from __future__ import annotations

from bench.peers.programs import protocol
from bench.peers.programs.protocol import TRACE, URL
from fencepost import App
from fencepost.store.open import open_store

SLOTS = 100

app = App(URL)


@app.task
async def noop(number: int) -> None:
    TRACE.ran()


@app.task
async def mark(number: int) -> None:
    protocol.mark(number)


@app.task
async def nap(number: int) -> None:
    await protocol.nap_async(number)


TASKS = {"noop": noop, "mark": mark, "nap": nap}


class Sender(protocol.BlockingSender):
    def submit(self, task: str, number: int) -> object:
        return TASKS[task].submit(number)

    async def scheduled(self, task: str, number: int) -> object:
        return await TASKS[task].aio.submit(number)

    async def bulk(self, count: int) -> None:
        noop.submit_many(range(count))


def prepare() -> None:
    store = open_store(URL)
    store.migrate()
    store.close()


async def submit() -> None:
    await protocol.take_orders(Sender())


def work() -> None:
    worker = app.worker(concurrency=SLOTS)
    protocol.wait_for_go()
    worker.run()


if __name__ == "__main__":
    protocol.main(prepare=prepare, submit=submit, work=work)

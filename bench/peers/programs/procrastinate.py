"""Procrastinate, over psycopg."""

from __future__ import annotations

import asyncio

from procrastinate import App, JobContext, PsycopgConnector, SyncPsycopgConnector

from bench.peers.programs import protocol
from bench.peers.programs.protocol import TRACE, URL

CONCURRENCY = 50
CONNECTIONS = 10
CHUNK = 5_000

app = App(connector=PsycopgConnector(conninfo=URL, min_size=2, max_size=CONNECTIONS))


@app.task(name="noop")
async def noop(number: int) -> None:
    TRACE.ran()


@app.task(name="mark")
async def mark(number: int) -> None:
    protocol.mark(number)


@app.task(name="nap")
async def nap(number: int) -> None:
    await protocol.nap_async(number)


@app.periodic(cron="*/10 * * * *")
@app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
async def retry_stalled_jobs(context: JobContext, timestamp: int) -> None:
    """Run jobs of dead workers again: its manual says to have such a task, at this interval."""
    manager = context.app.job_manager
    for job in await manager.get_stalled_jobs():
        await manager.retry_job(job)


TASKS = {"noop": noop, "mark": mark, "nap": nap}


class Sender(protocol.BlockingSender):
    def submit(self, task: str, number: int) -> object:
        return TASKS[task].defer(number=number)

    async def bulk(self, count: int) -> None:
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            noop.batch_defer(*({"number": number} for number in numbers))


def prepare() -> None:
    connector = SyncPsycopgConnector(conninfo=URL)
    with app.replace_connector(connector), app.open():
        app.schema_manager.apply_schema()


async def submit() -> None:
    connector = SyncPsycopgConnector(conninfo=URL, min_size=2, max_size=CONNECTIONS)
    with app.replace_connector(connector), app.open():
        await protocol.take_orders(Sender())


async def work() -> None:
    async with app.open_async():
        protocol.wait_for_go()
        await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)


if __name__ == "__main__":
    protocol.main(prepare=prepare, submit=submit, work=lambda: asyncio.run(work()))

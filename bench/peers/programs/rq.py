"""RQ: a worker that forks for each job, as it comes."""

from __future__ import annotations

from redis import Redis
from rq import Queue, Worker

from bench.peers.programs import protocol
from bench.peers.programs.protocol import URL

CHUNK = 1_000
HANDLERS = "bench.peers.programs.protocol."

queue = Queue(connection=Redis.from_url(URL))


class Sender(protocol.BlockingSender):
    def submit(self, task: str, number: int) -> object:
        return queue.enqueue(HANDLERS + task, number)

    async def bulk(self, count: int) -> None:
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            queue.enqueue_many(
                [Queue.prepare_data(HANDLERS + "noop", (number,)) for number in numbers]
            )


async def submit() -> None:
    await protocol.take_orders(Sender())


def work() -> None:
    worker = Worker([queue], connection=queue.connection)
    protocol.wait_for_go()
    worker.work(logging_level="WARNING")


if __name__ == "__main__":
    protocol.main(prepare=protocol.nothing, submit=submit, work=work)

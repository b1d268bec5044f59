"""Huey, over Redis."""

from __future__ import annotations

from huey import RedisHuey

from bench.peers.programs import protocol
from bench.peers.programs.protocol import URL

THREADS = 8

huey = RedisHuey("peers", url=URL)
TASKS = {name: huey.task(name=name)(getattr(protocol, name)) for name in protocol.TASKS}


class Sender(protocol.BlockingSender):
    def submit(self, task: str, number: int) -> object:
        return TASKS[task](number)


async def submit() -> None:
    await protocol.take_orders(Sender())


def work() -> None:
    consumer = huey.create_consumer(workers=THREADS, worker_type="thread")
    protocol.wait_for_go()
    consumer.run()


if __name__ == "__main__":
    protocol.main(prepare=protocol.nothing, submit=submit, work=work)

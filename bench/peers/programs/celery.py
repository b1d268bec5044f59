"""Celery, over Redis."""

from __future__ import annotations

from celery import Celery

from bench.peers.programs import protocol
from bench.peers.programs.protocol import URL

app = Celery("peers", broker=URL)
app.conf.task_acks_late = True  # else a job is gone as soon as it begins
app.conf.worker_hijack_root_logger = False
app.conf.broker_connection_retry_on_startup = True

TASKS = {
    name: app.task(name=name)(getattr(protocol, name))
    for name in protocol.TASKS  # plain functions: it has no handlers that are coroutines
}


class Sender(protocol.BlockingSender):
    def submit(self, task: str, number: int) -> object:
        return TASKS[task].delay(number)


async def submit() -> None:
    await protocol.take_orders(Sender())


def work() -> None:
    protocol.wait_for_go()
    options = ["--concurrency=1", "--loglevel=WARNING", "--pool=prefork"]
    app.worker_main(["worker", *options, "--hostname=worker-%h-" + str(protocol.now_us())])


if __name__ == "__main__":
    protocol.main(prepare=protocol.nothing, submit=submit, work=work)

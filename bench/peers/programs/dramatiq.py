"""Dramatiq, over Redis."""

from __future__ import annotations

import sys

import dramatiq
from dramatiq import cli
from dramatiq.brokers.redis import RedisBroker

from bench.peers.programs import protocol
from bench.peers.programs.protocol import URL

THREADS = 8

dramatiq.set_broker(RedisBroker(url=URL))
TASKS = {name: dramatiq.actor(actor_name=name)(getattr(protocol, name)) for name in protocol.TASKS}


class Sender(protocol.BlockingSender):
    def submit(self, task: str, number: int) -> object:
        return TASKS[task].send(number)


async def submit() -> None:
    await protocol.take_orders(Sender())


def work() -> None:
    protocol.wait_for_go()
    options = ["--processes", "1", "--threads", str(THREADS)]
    sys.argv = ["dramatiq", "bench.peers.programs.dramatiq", *options]
    cli.main(cli.make_argument_parser().parse_args(sys.argv[1:]))


if __name__ == "__main__":
    protocol.main(prepare=protocol.nothing, submit=submit, work=work)

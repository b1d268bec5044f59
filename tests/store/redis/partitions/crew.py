"""An app whose flows go through three queues; run as a program, it is a worker for them."""

from __future__ import annotations

import sys
from typing import Any

from fencepost import App, Context, chain, fan_in

PREFIX = "{crew}:"
QUEUES = ("image", "red", "pdf")
"""With this prefix, each is on another master of three."""


class Crew:
    """The app, and its flow."""

    def __init__(self, url: str) -> None:
        self.app = app = App(url)

        @app.task(name="first", queue=QUEUES[0])
        def first(number: int) -> int:
            return number

        @app.task(name="left", queue=QUEUES[1])
        def left(ctx: Context) -> int:
            return int(1 + sum(ctx.dependency_results.values()))

        @app.task(name="right", queue=QUEUES[2])
        def right(ctx: Context) -> int:
            return int(2 + sum(ctx.dependency_results.values()))

        @app.task(name="last", queue=QUEUES[0])
        def last(ctx: Context) -> int:
            return int(sum(ctx.dependency_results.values()))

        self.first, self.left, self.right, self.last = first, left, right, last

    def submit(self, number: int) -> Any:
        """Submit one, then two in other queues, then one that waits for both."""
        sides = [self.left.prepare(), self.right.prepare()]
        first = self.first.prepare(number)
        return self.app.flow(chain(first, fan_in(sides, self.last.prepare()))).submit()


if __name__ == "__main__":
    Crew(sys.argv[1]).app.worker(lease_ttl=2.0, concurrency=4).run()

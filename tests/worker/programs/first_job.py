"""A worker that says which modules its first jobs import, when its input ends: give it a URL."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from fencepost import App, Context, PermanentError, Retry
from fencepost.worker.run.fetcher import Claimer, Fetched

app = App(sys.argv[1], retry=Retry.none())
before: set[str] = set()
children: list[int | None] = []


@app.task
async def on_the_loop(number: int) -> int:
    return number


@app.task
def in_a_thread(number: int, ctx: Context) -> int:
    ctx.progress(0.5)
    return number


@app.task(isolation="process")
def in_a_child(number: int) -> list[str]:
    return [str(os.getppid()), str(os.getpid()), *sorted(sys.modules)]


@app.task
def failing(number: int) -> None:
    raise PermanentError("no")


claim = Claimer.claim


async def noted_claim(
    self: Claimer, limit: int, meanwhile: Callable[[], None] | None = None
) -> Fetched | None:
    """Claim; the first time, note what has been imported until then."""
    if not before:
        before.update(sys.modules)
        children.extend(child.pid for child in multiprocessing.active_children())
    return await claim(self, limit, meanwhile)


def main() -> None:
    worker: Any = app.worker()

    def end() -> None:
        sys.stdin.read()
        imported = sorted(set(sys.modules) - before) if before else ["nothing was claimed"]
        sys.stdout.write(json.dumps({"imported": imported, "children": children}))
        sys.stdout.flush()
        worker.stop()

    threading.Thread(target=end, daemon=True).start()
    Claimer.claim = noted_claim  # type: ignore[method-assign]  # it only looks
    worker.run()


if __name__ == "__main__":
    main()

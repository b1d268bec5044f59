"""What is shielded goes on without whoever waited for it, and leaves no complaint behind."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from fencepost.worker.run.settler import shielded


async def test_it_goes_on_when_its_waiter_is_cancelled() -> None:
    go_on = asyncio.Event()
    done = []

    async def work() -> None:
        await go_on.wait()
        done.append(True)

    waiter = asyncio.ensure_future(shielded(work()))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    go_on.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert done


async def test_an_error_that_nobody_waits_for_any_more_is_not_logged() -> None:
    """Found by the simulation: stopped while a settlement's reply was lost."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    go_on = asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        raise OSError("the store is away")

    waiter = shielded(work())
    await asyncio.sleep(0)
    waiter.cancel()
    go_on.set()
    for _ in range(3):
        await asyncio.sleep(0)
    del waiter
    gc.collect()
    assert complaints == []

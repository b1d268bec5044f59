"""Operations share commits, and a bad one among them fails alone. SQLite-specific: its writer."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.core.filter import JobFilter
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import NewJob
from fencepost.errors import DuplicateJobError, StoreUnavailableError
from fencepost.platform.locks import wait_for_lock
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.plan import Operation
from fencepost.store.sqlite.store import SqliteStore

UNIQUE = NewJob(type="t", key=Key("k", None, OnDuplicate.REJECT))


def count_transactions(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the size of each transaction."""
    sizes: list[int] = []
    transact = store._database.transact

    def counted(operations: Sequence[Operation[Any]]) -> list[Any]:
        sizes.append(len(operations))
        return transact(operations)

    monkeypatch.setattr(store._database, "transact", counted)
    return sizes


def test_operations_posted_together_share_transactions(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = count_transactions(store, monkeypatch)

    async def submit_all() -> list[Any]:
        operations = [store.queue.enqueue([NewJob(type="t")]) for _ in range(200)]
        return await asyncio.gather(*map(store.run_async, operations))

    replies = asyncio.run(submit_all())
    assert len({reply.job_id for (reply,) in replies}) == 200
    assert sum(sizes) == 200
    assert len(sizes) < 100
    assert store.run(store.reader.count(JobFilter())) == 200


def test_an_operation_that_fails_takes_nobody_with_it(store: SqliteStore) -> None:
    """S0-5: its group is rolled back, and every other member is run again by itself."""

    async def submit_all() -> list[Any]:
        operations = [
            store.queue.enqueue([NewJob(type="before")]),
            store.queue.enqueue([UNIQUE], atomic=True),
            store.queue.enqueue([NewJob(type="lost"), UNIQUE], atomic=True),
            store.queue.enqueue([NewJob(type="after")]),
        ]
        return await asyncio.gather(*map(store.run_async, operations), return_exceptions=True)

    before, unique, refused, after = asyncio.run(submit_all())
    assert isinstance(refused, DuplicateJobError)
    assert refused.existing_id == unique[0].job_id
    assert {view.name for view in store.run(store.overview.types()) if view.counts} == {
        "before",
        "t",
        "after",
    }
    assert before[0].job_id != after[0].job_id


def test_a_lane_made_by_a_transaction_that_failed_is_made_again(store: SqliteStore) -> None:
    """The catalog must not remember numbers that were rolled back."""
    store.run(store.queue.enqueue([UNIQUE]))
    with pytest.raises(DuplicateJobError):
        store.run(store.queue.enqueue([NewJob(type="new", queue="new"), UNIQUE], atomic=True))
    store.run(store.queue.enqueue([NewJob(type="other", queue="other")]))
    store.run(store.queue.enqueue([NewJob(type="new", queue="new")]))
    counts = {view.name: sum(view.counts.values()) for view in store.run(store.overview.queues())}
    assert counts == {"default": 1, "new": 1, "other": 1}


def test_what_somebody_relies_on_is_answered_after_the_disk_has_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-4: enqueue waits for the disk; a claim, which may be lost without harm, does not."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert len(synced) == 1
    store.run(store.queue.claim(ClaimRequest(worker="w", limit=1)))
    assert len(synced) == 1
    asyncio.run(store.run_async(store.queue.enqueue([NewJob(type="t")])))
    assert len(synced) == 2
    asyncio.run(store.run_async(store.queue.claim(ClaimRequest(worker="w", limit=1))))
    assert len(synced) == 2


def test_a_write_is_not_answered_before_the_disk_has_confirmed_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-4: held up there, nobody hears of it; a claim beside it is answered."""
    is_syncing, may_end = threading.Event(), threading.Event()

    def hold(fd: int) -> None:
        is_syncing.set()
        assert may_end.wait(30)

    monkeypatch.setattr(os, "fdatasync", hold)

    async def write() -> bool:
        writing = asyncio.create_task(store.run_async(store.queue.enqueue([NewJob(type="t")])))
        assert await asyncio.to_thread(is_syncing.wait, 30)
        await store.run_async(store.queue.claim(ClaimRequest(worker="w", limit=1)))
        is_answered = writing.done()
        may_end.set()
        await writing
        return is_answered

    assert not asyncio.run(write())


def test_durability_process_does_not_wait_for_the_disk(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    store = SqliteStore(path, durability="process")
    monkeypatch.setattr(os, "fdatasync", synced.append)
    store.run(store.queue.enqueue([NewJob(type="t")]))
    assert synced == []
    levels = {finding.code: finding.level for finding in store.run(store.overview.inspect())}
    assert levels["durability"] == "warn"
    store.close()


def test_closing_finishes_what_was_posted(path: str) -> None:
    store = SqliteStore(path)

    async def submit_and_close() -> None:
        posted = [
            asyncio.ensure_future(store.run_async(store.queue.enqueue([NewJob(type="t")])))
            for _ in range(50)
        ]
        await asyncio.sleep(0)
        await asyncio.to_thread(store.close)
        await asyncio.gather(*posted)

    asyncio.run(submit_and_close())
    again = SqliteStore(path)
    assert again.run(again.reader.count(JobFilter())) == 50
    again.close()


def test_a_group_that_cannot_be_begun_is_refused_at_once_not_one_by_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand of them, each waiting as long as one may for the lock, would wait for hours."""
    store = SqliteStore(path, patience=0.05)
    sizes = count_transactions(store, monkeypatch)
    lock = os.open(f"{path}-lock", os.O_RDWR)
    wait_for_lock(lock)

    async def submit_all() -> list[Any]:
        operations = [store.queue.enqueue([NewJob(type="t")]) for _ in range(50)]
        return await asyncio.gather(*map(store.run_async, operations), return_exceptions=True)

    replies = asyncio.run(submit_all())
    os.close(lock)
    assert [type(reply) for reply in replies if not isinstance(reply, StoreUnavailableError)] == []
    assert sum(sizes) == 50
    assert store.run(store.reader.count(JobFilter())) == 0
    store.close()

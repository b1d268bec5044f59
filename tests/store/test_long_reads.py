"""A read that takes long, as one over all names of a store, holds up no short read.

Both engines let reads wait for each other: on SQLite they share a connection, on PostgreSQL a
thread. The memory store has nothing that takes long.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.fixtures import FreshPostgres, postgres_sources

from fencepost.core.filter import JobFilter
from fencepost.core.job.job import NewJob
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.records.overview import OverviewFacet
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store
from fencepost.store.plan import Operation, Plan, Statement, declaration_of

PATIENCE = 20.0


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
    else:
        fresh: FreshPostgres = request.getfixturevalue("fresh_postgres")
        url = fresh(postgres_sources()[0])
    store = open_store(url)
    store.migrate()
    yield store
    store.close()


def test_what_reads_all_names_or_jobs_is_declared_as_long() -> None:
    facet = OverviewFacet
    for long in (facet.queues, facet.types, facet.inspect, ReaderFacet.count):
        assert declaration_of(long).is_long
    for short in (facet.ended, ReaderFacet.get):  # a page, and what is named
        assert not declaration_of(short).is_long


@pytest.mark.parametrize("is_awaited", [True, False], ids=["awaited", "blocking"])
async def test_a_short_read_waits_for_no_long_one(store: Store, is_awaited: bool) -> None:
    began, may_end = threading.Event(), threading.Event()

    def plan() -> Plan[str]:
        yield Statement("select 1")
        began.set()
        may_end.wait(PATIENCE)
        return "long"

    (reply,) = store.run(store.queue.enqueue([NewJob(type="t")]))
    long = Operation(declaration_of(OverviewFacet.queues), plan)
    if is_awaited:
        reading = asyncio.create_task(store.run_async(long))
    else:
        reading = asyncio.create_task(asyncio.to_thread(store.run, long))
    try:
        assert await asyncio.to_thread(began.wait, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            [job] = await store.run_async(store.reader.get([reply.job_id]))
            assert job is not None
            assert (await asyncio.to_thread(store.run, store.reader.get([job.id]))) == [job]
        assert not reading.done()
    finally:
        may_end.set()
    assert await reading == "long"
    assert await store.run_async(store.reader.count(JobFilter())) == 1

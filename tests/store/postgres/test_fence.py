"""A server that crashes may forget a claim, which does not wait for its disk; not its number.

PostgreSQL-specific: it takes a server that dies. What a power cut does to SQLite is tested there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers.postgres import PostgresServer

from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Released, Settlement, decide
from fencepost.store.interface.queue import ClaimRequest, Enqueued
from fencepost.store.open import open_store

DATABASE = "jobs"
CRASHES = 6


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    # Nothing but a commit that waits for the disk writes the log, but for these.
    lazy = {"wal_writer_delay": "10s", "autovacuum": "off", "bgwriter_delay": "10s"}
    with PostgresServer(settings=lazy) as server:
        server.create_database(DATABASE)
        yield server


def claim_and_crash(server: PostgresServer) -> tuple[ClaimedJob, bool]:
    """Claim the only job and crash the server; return whether it has forgotten the claim."""
    store = open_store(server.url(DATABASE))
    [claimed] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    server.crash()
    store.close()
    server.start()
    store = open_store(server.url(DATABASE))
    [job] = store.run(store.reader.get([claimed.id]))
    assert job is not None
    if job.state is State.RUNNING:
        decision = decide(claimed, Released(), store.clock.rng)
        store.run(store.queue.settle([Settlement(claimed.id, claimed.lease.token, decision)]))
    store.close()
    return claimed, job.state is State.SCHEDULED


def test_versions_rise_through_crashes_that_take_claims_back(server: PostgresServer) -> None:
    """C43, S0-51, S0-73, S1-78: nor is the id of an attempt given twice."""
    store = open_store(server.url(DATABASE))
    store.migrate()
    [reply] = store.run(store.queue.enqueue([NewJob(type="t")]))
    assert isinstance(reply, Enqueued)
    store.close()
    claims = []
    forgotten = 0
    known = 0
    for _ in range(CRASHES):
        claimed, is_forgotten = claim_and_crash(server)
        assert claimed.last_version == known, "the one before, as far as the server knows"
        claims.append(claimed)
        forgotten += is_forgotten
        known = known if is_forgotten else claimed.lease.version
    assert forgotten > 0, "no crash took a claim back, so nothing was tried"
    versions = [claimed.lease.version for claimed in claims]
    assert versions == sorted(set(versions))
    assert len({claimed.attempt_id for claimed in claims}) == CRASHES

"""Ends are told whole while transactions commit side by side, in another order than they began.

Store-specific: no other store commits two writers at once.
"""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.stats.statistics import EndedJob, Follower
from fencepost.core.values.payload import NULL
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

EVER = datetime(1970, 1, 1, tzinfo=UTC)


def success(store: PostgresStore, job: ClaimedJob) -> Settlement:
    return Settlement(job.id, job.lease.token, decide(job, Succeeded(NULL), store.clock.rng))


def read(store: PostgresStore, since: datetime) -> list[EndedJob]:
    return store.run(store.overview.ended(since, limit=100)).jobs


def test_an_end_that_is_committed_late_is_told_by_whoever_reads_the_overlap(
    store: PostgresStore, postgres_url: str
) -> None:
    """The one that ended first is committed last; its place has been passed then."""
    store.run(store.queue.enqueue([NewJob(type="mail")] * 2))
    # By two claims: the jobs of one share a lease, and whoever settles locks it.
    [late] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    [soon] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    follower = Follower(EVER)
    with psycopg.connect(postgres_url) as slow:
        store.run_in(slow, lambda view: view.queue.settle([success(store, late)]))
        store.run(store.queue.settle([success(store, soon)]))
        [seen] = follower.take(read(store, follower.since))
        assert seen.id == soon.id
        slow.commit()
    assert store.run(store.overview.ended(EVER, limit=5, after=seen.position)).jobs == []
    [told] = follower.take(read(store, follower.since))
    assert told.id == late.id
    assert told.position < seen.position
    assert follower.take(read(store, follower.since)) == []


def test_an_end_that_is_rolled_back_is_not_told(store: PostgresStore, postgres_url: str) -> None:
    store.run(store.queue.enqueue([NewJob(type="mail")]))
    [job] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    with psycopg.connect(postgres_url) as slow:
        store.run_in(slow, lambda view: view.queue.settle([success(store, job)]))
        slow.rollback()
    assert read(store, EVER) == []


def test_ends_are_found_without_reading_the_whole_table(
    store: PostgresStore, postgres_url: str
) -> None:
    """Those of a minute are on few pages, and the index knows which."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "insert into fencepost.done(seq, completed_at, attempt, lease_version, state) "
            "select n, now() - n * interval '1 s', 1, 1, 5 from generate_series(100000, 1, -1) n"
        )
        admin.execute("vacuum analyze fencepost.done")
        plan = admin.execute(
            "explain select seq from fencepost.done where completed_at >= now() - interval '1 m' "
            "order by completed_at, seq limit 10"
        ).fetchall()
    assert any("done_ended" in line for (line,) in plan)

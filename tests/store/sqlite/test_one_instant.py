"""An operation happens in one instant, however long it takes.

SQLite-specific: here a claim is made of steps in Python, and each of them used to read the clock.
Chaos found it on a busy machine: recovering many leases took longer than their retry delay, so that
the same claim promoted and leased them, as of a moment before they had been taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.core.job.job import NewJob
from fencepost.core.job.policy import Backoff, Policy
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock

TICK = 0.02
POLICY = Policy(backoff=Backoff("constant", initial_delay=TICK / 2), lease_ttl=1.0)


class TickingClock(FakeClock):
    """A clock that is a little later at every look."""

    def now_us(self) -> int:
        self.advance(TICK)
        return super().now_us()


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, clock=TickingClock())
    yield opened
    opened.close()


def test_a_claim_leases_nothing_before_the_lease_that_it_takes_back_has_ended(
    store: SqliteStore,
) -> None:
    store.run(store.queue.enqueue([NewJob(type="t", policy=POLICY)]))
    request = ClaimRequest(worker="w", limit=1)
    (job,) = store.run(store.queue.claim(request)).jobs
    store.clock.sleep(2.0)
    claim = store.run(store.queue.claim(request))
    assert [moved.job_id for moved in claim.recovered] == [job.id]
    assert claim.jobs == [], "its retry is not due in the instant in which it was taken back"
    assert [again.id for again in store.run(store.queue.claim(request)).jobs] == [job.id]
    attempts = store.run(store.reader.attempts(job.id))
    assert attempts is not None
    first, second = attempts
    assert first.ended_at is not None
    assert first.ended_at <= second.started_at

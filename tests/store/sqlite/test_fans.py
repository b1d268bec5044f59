"""To end a job takes as much more work as more jobs wait for it.

Store-specific: it counts the steps of SQLite's machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.clock import SystemClock
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.job import Body, Category, Failure, NewJob
from fencepost.core.job.outcome import Failed, Outcome, Settlement, Succeeded, decide
from fencepost.store.interface.queue import ClaimRequest, Enqueued, Settled
from fencepost.store.sqlite.store import SqliteStore

SMALL, TIMES = 1_000, 4
STEPS = 100
"""Of the machine, counted as one."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"), clock=SystemClock())
    yield store
    store.close()


def work(store: SqliteStore, count: int, outcome: Outcome, *, is_keyed: bool) -> int:
    """Return how many steps it takes to end a job that *count* wait for."""
    (root,) = store.run(store.queue.enqueue([NewJob(type="root")]))
    assert isinstance(root, Enqueued)
    on = Dependencies((root.job_id,))
    keys = [f"{count} {n}" if is_keyed else None for n in range(count)]
    store.run(
        store.queue.enqueue([NewJob(type="leaf", after=on, concurrency_key=key) for key in keys])
    )
    request = ClaimRequest(worker="w", limit=1, types=frozenset({"root"}))
    (job,) = store.run(store.queue.claim(request)).jobs
    decision = decide(job, outcome, store.clock.rng)
    settlement = Settlement(job.id, job.lease.token, decision)
    steps = 0

    def count_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    writer = store._database._writer
    writer.set_progress_handler(count_step, STEPS)
    (reply,) = store.run(store.queue.settle([settlement]))
    writer.set_progress_handler(None, 0)
    assert isinstance(reply, Settled)
    assert len(reply.followed) == count
    return steps


@pytest.mark.parametrize("is_keyed", [False, True], ids=["plain", "keyed"])
@pytest.mark.parametrize(
    "outcome",
    [Succeeded(Body(b"7")), Failed(Failure(Category.PERMANENT, "no"))],
    ids=["done", "failed"],
)
def test_four_times_as_many_dependents_are_four_times_the_work(
    store: SqliteStore, outcome: Outcome, is_keyed: bool
) -> None:
    small = work(store, SMALL, outcome, is_keyed=is_keyed)
    large = work(store, SMALL * TIMES, outcome, is_keyed=is_keyed)
    assert large < small * TIMES * 1.5

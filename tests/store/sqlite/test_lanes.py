"""Lanes on SQLite: a claim looks only at those that it asks for.

SQLite-specific: what it looks at is counted in steps of the engine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock

ASKED = {
    "both": ({"mine": 1}, frozenset({"mail"})),
    "types": (None, frozenset({"mail"})),
    "queues": ({"mine": 1}, None),
}


def steps(store: SqliteStore, request: ClaimRequest) -> int:
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    connection = store._database._writer
    store.run(store.queue.claim(request))
    connection.set_progress_handler(step, 1)
    try:
        store.run(store.queue.claim(request))
    finally:
        connection.set_progress_handler(None, 0)
    return count


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", ["both", "queue", "type"])
def test_a_claim_takes_no_more_steps_for_names_of_others(
    tmp_path: Path, asked: str, name: str
) -> None:
    """However many names others make up."""
    queues, types = ASKED[asked]
    if (asked, name) in (("queues", "queue"), ("types", "type")):
        pytest.skip("these are asked for")
    store = SqliteStore(str(tmp_path / "jobs.db"), clock=FakeClock())
    store.run(store.queue.enqueue([NewJob(type="mail", queue="mine", delay=60.0)]))
    request = ClaimRequest(worker="w", limit=1, queues=queues, types=types)

    def add(first: int, last: int) -> None:
        foreign = [
            NewJob(
                type="mail" if name == "type" else f"t{number}",
                queue="mine" if name == "queue" else f"q{number}",
                delay=60.0,
            )
            for number in range(first, last)
        ]
        store.run(store.queue.enqueue(foreign))

    add(0, 10)
    few = steps(store, request)
    add(10, 1000)
    assert steps(store, request) == few
    store.close()


@pytest.mark.parametrize("what", ["queues", "types"])
def test_to_look_at_one_name_takes_no_more_steps_for_others(tmp_path: Path, what: str) -> None:
    """As an autoscaler does that asks for one queue, again and again."""
    store = SqliteStore(str(tmp_path / "jobs.db"), clock=FakeClock())
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    def looked_at() -> int:
        nonlocal count
        count = 0
        connection = store._database._long_reader.open()
        connection.set_progress_handler(step, 1)
        [view] = store.run(getattr(store.overview, what)(["mine", "none"]))
        connection.set_progress_handler(None, 0)
        assert sum(view.counts.values()) == 1
        return count

    store.run(store.queue.enqueue([NewJob(type="mine", queue="mine")]))
    for first, last in ((0, 10), (10, 1000)):
        others = [NewJob(type=f"t{each}", queue=f"q{each}") for each in range(first, last)]
        store.run(store.queue.enqueue(others))
        if first == 0:
            looked_at()  # statements are prepared
            few = looked_at()
    assert looked_at() == few
    store.close()

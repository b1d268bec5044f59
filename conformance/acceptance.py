"""A store that is moved to another accepts no new jobs, whichever way they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from conformance.crons import declare, definition, firing
from conformance.harness import Harness, job
from conformance.transfer import dump, elsewhere
from fencepost.core.events import NewEvent
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.queue import Spawn
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation

__all__ = ["TestAcceptance"]


def refuse(h: Harness) -> None:
    h.run(h.store.transfer.accept_jobs(False))


def accept(h: Harness) -> None:
    h.run(h.store.transfer.accept_jobs(True))


def refused(h: Harness, make: Callable[[Store], Operation[Any]]) -> None:
    with pytest.raises(StoreUnavailableError, match="new jobs are refused"):
        h.run(make(h.store))


class TestAcceptance:
    @pytest.fixture(autouse=True)
    def lifted(self, h: Harness) -> Iterator[None]:
        """Accept jobs again at the end: a database may be emptied and used for the next test."""
        yield
        accept(h)

    def test_no_new_job_is_stored(self, h: Harness) -> None:
        a = h.submit()
        refuse(h)
        before = h.snapshot()
        behind = Dependencies((a,))
        for jobs in (
            [job()],
            [job()] * 30,
            [job(key=Key("k"))],
            [job(delay=5.0)],
            [job(after=behind)],
            [job(tags={"a": "b"})],
            [job(concurrency_key="k")],
        ):
            refused(h, partial(_enqueue, jobs, atomic=False))
            refused(h, partial(_enqueue, jobs, atomic=True))
        assert h.snapshot() == before

    def test_nor_one_of_an_event_a_cron_a_dead_letter_or_another_store(self, h: Harness) -> None:
        dead = h.job_in(State.DEAD_LETTER)
        declare(h, definition(h))
        [cron] = h.run(h.store.crons.list()).crons
        assert cron.next_tick is not None
        fire = firing(cron.next_tick)
        h.submit("report")
        with elsewhere(h) as other:
            other.submit()
            records = dump(other)
        h.advance_to(cron.next_tick)
        refuse(h)
        before = h.snapshot()
        refused(h, lambda store: store.events.send(NewEvent("user.created"), [job()]))
        refused(h, lambda store: store.crons.fire([fire]))
        refused(h, lambda store: store.control.replay([dead]))
        refused(h, lambda store: store.transfer.load(records))
        assert h.snapshot() == before
        assert h.run(h.store.crons.list()).crons == [cron], "the tick is still to come"
        accept(h)
        h.run(h.store.crons.fire([fire]))
        h.replay(dead)
        h.run(h.store.transfer.load(records))

    def test_jobs_that_are_there_go_on(self, h: Harness) -> None:
        """A move refuses to begin beside running jobs, and cannot stop what begins just then."""
        first, second, third = h.submit_many(3)
        claimed = h.take()
        refuse(h)
        h.heartbeat(claimed)
        refused(h, lambda store: store.queue.spawn([_spawn(claimed)]))
        h.succeed(claimed)
        h.cancel(second)
        h.succeed(h.take())
        assert [h.state(each) for each in (first, second, third)] == [
            State.COMPLETED,
            State.CANCELLED,
            State.COMPLETED,
        ]

    def test_it_can_be_asked_twice_and_taken_back(self, h: Harness) -> None:
        accept(h)
        h.submit()
        refuse(h)
        refuse(h)
        refused(h, lambda store: store.queue.enqueue([job()]))
        accept(h)
        accept(h)
        h.submit()
        assert len(h.find()) == 2

    def test_every_process_refuses_also_after_a_restart(self, h: Harness) -> None:
        one, other = h.peers(2)
        h.run(other.queue.enqueue([job()]))
        h.run(one.transfer.accept_jobs(False))
        refused(h, lambda _: other.queue.enqueue([job()]))
        h.reopen(is_clean=False)
        if h.is_durable:
            refused(h, lambda store: store.queue.enqueue([job()]))


def _enqueue(jobs: Sequence[NewJob], store: Store, *, atomic: bool) -> Operation[Any]:
    return store.queue.enqueue(jobs, atomic=atomic)


def _spawn(claimed: ClaimedJob) -> Spawn:
    return Spawn(claimed.id, claimed.lease.token, (job(key=Key("child")),))

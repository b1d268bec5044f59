"""A bit of everything that callers, workers and the leader do with a store."""

from __future__ import annotations

from fencepost.core.events import NewEvent
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import AttemptOutcome, Category, Failure, NewJob
from fencepost.core.job.lifecycle import TERMINAL, Event, State
from fencepost.core.job.outcome import Decision, Settlement
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.postgres.store import PostgresStore

SUCCESS = Decision(Event.SUCCEED, State.COMPLETED, AttemptOutcome.SUCCEEDED)
FAILURE = Decision(
    Event.REJECT,
    State.FAILED,
    AttemptOutcome.FAILED,
    failure=Failure(Category.PERMANENT, "no"),
)


def use(store: PostgresStore) -> None:
    """Do everything that callers, workers and the leader do."""
    run = store.run
    jobs = [
        NewJob(type="mail"),
        NewJob(type="mail", key=Key("k", None), tags={"a": "1"}, correlation_id="c"),
        NewJob(type="mail", delay=60.0),
        NewJob(type="report"),
    ]
    one, two, delayed, report = [reply.job_id for reply in run(store.queue.enqueue(jobs))]
    run(store.settings.pause(Scope.TYPE, "report"))
    run(store.settings.limit(Scope.QUEUE, "default", 10))
    claimed = {
        job.id: job for job in run(store.queue.claim(ClaimRequest(worker="w", limit=10))).jobs
    }
    assert claimed.keys() == {one, two}
    settlements = [
        Settlement(one, claimed[one].lease.token, SUCCESS),
        Settlement(two, claimed[two].lease.token, FAILURE),
    ]
    run(store.queue.settle(settlements))
    run(store.control.replay([two]))
    run(store.control.cancel([delayed]))
    run(store.upkeep.recover(10))
    run(store.upkeep.promote(10))
    run(store.upkeep.expire(10))
    run(store.upkeep.tidy())
    run(store.overview.inspect())
    run(store.events.send(NewEvent("user.created"), jobs[3:]))
    run(store.events.load([run(store.events.send(NewEvent("user.created"), [])).event]))
    run(store.events.prune(0.0, 1))
    run(store.upkeep.prune(PruneRequest(keep=dict.fromkeys(TERMINAL, 0.0), limit=10)))
    assert run(store.reader.get([report]))[0] is not None
    assert run(store.reader.situation(report)) is not None

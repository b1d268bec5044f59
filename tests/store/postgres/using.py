"""A bit of everything that callers, workers and the leader do with a store."""

from __future__ import annotations

from fencepost.core.events import NewEvent
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import AttemptOutcome, Category, Failure, NewJob
from fencepost.core.job.lifecycle import TERMINAL, Event, State
from fencepost.core.job.outcome import Decision, Settlement
from fencepost.store.interface.requests import ClaimRequest, PruneRequest, Scope
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
    one, two, delayed, report = [reply.job_id for reply in run(store.enqueue(jobs))]
    run(store.pause(Scope.TYPE, "report"))
    run(store.limit(Scope.QUEUE, "default", 10))
    claimed = {job.id: job for job in run(store.claim(ClaimRequest(worker="w", limit=10))).jobs}
    assert claimed.keys() == {one, two}
    settlements = [
        Settlement(one, claimed[one].lease.token, SUCCESS),
        Settlement(two, claimed[two].lease.token, FAILURE),
    ]
    run(store.settle(settlements))
    run(store.replay([two]))
    run(store.cancel([delayed]))
    run(store.recover(10))
    run(store.promote(10))
    run(store.expire(10))
    run(store.tidy())
    run(store.inspect())
    run(store.send(NewEvent("user.created"), jobs[3:]))
    run(store.load_events([run(store.send(NewEvent("user.created"), [])).event]))
    run(store.prune_events(0.0, 1))
    run(store.prune(PruneRequest(keep=dict.fromkeys(TERMINAL, 0.0), limit=10)))
    assert run(store.get([report]))[0] is not None
    assert run(store.situation(report)) is not None
